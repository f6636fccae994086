// Finds rocprofiler-sdk, and determines if a tool needs it.
#ifndef ROCATTACH_TESTS_SIMROCM_REGISTER_SDK_LIBRARY_H_
#define ROCATTACH_TESTS_SIMROCM_REGISTER_SDK_LIBRARY_H_

#include "userspace/collector/sdk/abi_tool.h"

namespace simrocm {

// The SDK's entry points; a missing one is nullptr.
struct SdkLibrary {
  rocattach_sdk_set_api_table_fn set_api_table = nullptr;
  rocattach_sdk_load_attachment_tool_fn load_attachment_tool = nullptr;
  rocattach_sdk_attach_fn attach = nullptr;
  rocattach_sdk_detach_fn detach = nullptr;
};

// True if a tool is visible: dlsym(RTLD_DEFAULT) finds rocprofiler_configure, or
// ROCPROFILER_REGISTER_FORCE_LOAD, whose default is true if
// ROCPROFILER_REGISTER_LIBRARY or ROCP_TOOL_LIBRARIES has a value.
bool ToolIsVisible();

// Finds or loads the SDK: by symbol, else ROCPROFILER_REGISTER_LIBRARY, else
// librocprofiler-sdk.so, .so.1 and .so.0, each beside this library first. A found SDK
// is remembered. Returns nullptr if there is none.
const SdkLibrary* FindSdk();

// The SDK that was found before; nullptr if there is none.
const SdkLibrary* KnownSdk();

// Opens a library of this name beside this one, else as the loader finds it.
void* OpenBeside(const char* name, int flags);

}  // namespace simrocm

#endif  // ROCATTACH_TESTS_SIMROCM_REGISTER_SDK_LIBRARY_H_
