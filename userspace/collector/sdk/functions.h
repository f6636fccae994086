// The functions of the rocprofiler-sdk that called us, and of rocprofiler-register.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_FUNCTIONS_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_FUNCTIONS_H_

#include "userspace/collector/sdk/abi.h"

namespace rocattach::collector {

// Fills `functions` from the library that holds `caller`, a code address in the SDK, or
// from the global scope. nullptr, or the name of a missing function without which the
// backend cannot work.
const char* LoadSdkFunctions(const void* caller, rocattach_sdk_functions* functions);

// The path under which the library that holds this address was loaded; nullptr if that
// is not known. Valid as long as the library stays loaded.
const char* LibraryOf(const void* address);

// A function of the rocprofiler-register in this process; nullptr if there is none.
void* FindRegisterFunction(const char* name);

// A function of the rocprofiler-sdk in this process, in whatever way it was opened;
// nullptr if there is none.
const void* FindSdkFunction(const char* name);

// True if the SDK in this process has looked for its tools: it does that once, when the
// first library registers, and takes no more after that.
bool SdkHasItsTools();

// True if the process's environment switches rocprofiler-register off.
bool IsRegisterOff();

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_FUNCTIONS_H_
