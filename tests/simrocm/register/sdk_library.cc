#include "tests/simrocm/register/sdk_library.h"

#include <dlfcn.h>

#include <string>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/environment.h"

namespace simrocm {
namespace {

SdkLibrary* known = nullptr;

template <typename Function>
void Resolve(void* handle, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(handle, name));
}

// All entry points must come from the object that has set_api_table.
template <typename Function>
void KeepIfSameObject(const void* base, Function* function) {
  Dl_info info;
  if (*function == nullptr) return;
  if (dladdr(reinterpret_cast<void*>(*function), &info) == 0 ||
      info.dli_fbase != base) {
    *function = nullptr;
  }
}

SdkLibrary ResolveAll(void* handle) {
  SdkLibrary sdk;
  Resolve(handle, "rocprofiler_set_api_table", &sdk.set_api_table);
  if (sdk.set_api_table == nullptr) return sdk;
  Resolve(handle, "rocprofiler_load_attachment_tool", &sdk.load_attachment_tool);
  Resolve(handle, "rocprofiler_attach", &sdk.attach);
  Resolve(handle, "rocprofiler_detach", &sdk.detach);
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(sdk.set_api_table), &info) != 0) {
    KeepIfSameObject(info.dli_fbase, &sdk.load_attachment_tool);
    KeepIfSameObject(info.dli_fbase, &sdk.attach);
    KeepIfSameObject(info.dli_fbase, &sdk.detach);
  }
  return sdk;
}

const SdkLibrary* Remember(const SdkLibrary& sdk, const char* from) {
  known = new SdkLibrary(sdk);
  Log("register.sdk_found from=%s", from);
  return known;
}

}  // namespace

bool ToolIsVisible() {
  if (dlsym(RTLD_DEFAULT, ROCATTACH_SDK_CONFIGURE) != nullptr) return true;
  bool named = !GetString("ROCPROFILER_REGISTER_LIBRARY").empty() ||
               !GetString("ROCP_TOOL_LIBRARIES").empty();
  return GetBool("ROCPROFILER_REGISTER_FORCE_LOAD", named);
}

void* OpenBeside(const char* name, int flags) {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&OpenBeside), &info) != 0) {
    std::string path = info.dli_fname;
    path.resize(
        path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/') + 1);
    if (void* handle = dlopen((path + name).c_str(), flags)) return handle;
  }
  return dlopen(name, flags);
}

const SdkLibrary* KnownSdk() {
  return known;
}

const SdkLibrary* FindSdk() {
  if (known != nullptr) return known;
  SdkLibrary sdk = ResolveAll(RTLD_DEFAULT);
  if (sdk.set_api_table != nullptr) return Remember(sdk, "symbol");
  std::string named = GetString("ROCPROFILER_REGISTER_LIBRARY");
  const char* candidates[] = {"librocprofiler-sdk.so", "librocprofiler-sdk.so.1",
                              "librocprofiler-sdk.so.0"};
  // Opened first without adding its symbols to the program, then made global.
  auto try_open = [&](const std::string& name, bool beside) -> const SdkLibrary* {
    void* handle = beside ? OpenBeside(name.c_str(), RTLD_LOCAL | RTLD_LAZY)
                          : dlopen(name.c_str(), RTLD_LOCAL | RTLD_LAZY);
    if (handle == nullptr) return nullptr;
    sdk = ResolveAll(handle);
    if (sdk.set_api_table == nullptr) {
      dlclose(handle);
      return nullptr;
    }
    if (beside) {
      OpenBeside(name.c_str(), RTLD_GLOBAL | RTLD_LAZY);
    } else {
      dlopen(name.c_str(), RTLD_GLOBAL | RTLD_LAZY);
    }
    return Remember(sdk, name.c_str());
  };
  if (!named.empty()) return try_open(named, false);
  for (const char* candidate : candidates) {
    if (const SdkLibrary* found = try_open(candidate, true)) return found;
  }
  return nullptr;
}

}  // namespace simrocm
