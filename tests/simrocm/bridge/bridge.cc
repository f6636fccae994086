// libsimrocm-bridge.so: makes the HSA runtime of ROCm 5.2 hand its API table to
// rocprofiler-register at the end of its first hsa_init, as the runtimes of ROCm 6 and
// later do.
//
// It is loaded as an HSA tool. If preloaded, it also answers the runtime's query for
// HSA_TOOLS_LIB with its own name and loads the user's tools itself: so it can do what
// a newer runtime does and silently skip them once a rocprofiler tool is loaded. If
// named in HSA_TOOLS_LIB and not preloaded, it only registers.
#include <dlfcn.h>
#include <hsa/hsa_api_trace.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/environment.h"
#include "userspace/collector/sdk/register_abi.h"

#define SIMROCM_EXPORT extern "C" __attribute__((visibility("default")))

extern "C" int32_t rocprofiler_register_library_api_table(
    const char* name, rocattach_register_import_fn import_func, uint32_t lib_version,
    void** api_tables, uint64_t api_table_length, rocattach_register_id* id);

// Secure mode checks which file this function is in.
SIMROCM_EXPORT uint32_t rocprofiler_register_import_hsa(void) {
  return 10500;
}

namespace {

using OnLoadFunction = bool (*)(HsaApiTable*, uint64_t, uint64_t, const char* const*);
using OnUnloadFunction = void (*)();

// True once the runtime has asked for HSA_TOOLS_LIB: then we load the user's tools.
bool answered = false;

std::vector<void*>& LoadedTools() {
  static auto* tools = new std::vector<void*>;
  return *tools;
}

std::string OwnPath() {
  Dl_info info;
  return dladdr(reinterpret_cast<void*>(&LoadedTools), &info) != 0 ? info.dli_fname
                                                                   : "";
}

// Our own file, as one word of HSA_TOOLS_LIB: the runtime splits that at blanks, and a
// backslash escapes the next character.
char* OwnWord() {
  static std::string* const word = [] {
    auto* escaped = new std::string;
    for (char c : OwnPath()) {
      if (c == ' ' || c == '"' || c == '\\') escaped->push_back('\\');
      escaped->push_back(c);
    }
    return escaped;
  }();
  return word->data();
}

char* FindInEnvironment(const char* name) {
  const size_t length = strlen(name);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') {
      return *entry + length + 1;
    }
  }
  return nullptr;
}

bool IsHsaRuntime(const void* address) {
  Dl_info info;
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr &&
         strstr(info.dli_fname, "libhsa-runtime64.so") != nullptr;
}

// The words of HSA_TOOLS_LIB, without their backslashes.
std::vector<std::string> ToolNames() {
  std::vector<std::string> names;
  bool in_word = false;
  const std::string list = simrocm::GetString("HSA_TOOLS_LIB");
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] == ' ') {
      in_word = false;
      continue;
    }
    if (!std::exchange(in_word, true)) names.emplace_back();
    if (list[i] == '\\' && i + 1 < list.size()) ++i;
    names.back().push_back(list[i]);
  }
  return names;
}

void LoadTools(HsaApiTable* table, uint64_t version) {
  std::vector<std::string> failed;
  for (const std::string& name : ToolNames()) {
    if (name == OwnPath()) continue;
    void* handle = dlopen(name.c_str(), RTLD_LAZY);
    auto on_load = handle != nullptr
                       ? reinterpret_cast<OnLoadFunction>(dlsym(handle, "OnLoad"))
                       : nullptr;
    std::vector<const char*> failed_names;
    failed_names.reserve(failed.size());
    for (const std::string& other : failed) failed_names.push_back(other.c_str());
    bool loaded = on_load == nullptr
                      ? handle != nullptr
                      : on_load(table, version, failed.size(), failed_names.data());
    simrocm::Log("bridge.tool name=%s loaded=%d", name.c_str(), loaded);
    if (loaded) {
      LoadedTools().push_back(handle);
    } else {
      failed.push_back(name);
    }
  }
}

}  // namespace

SIMROCM_EXPORT char* getenv(const char* name) {
  if (strcmp(name, "HSA_TOOLS_LIB") == 0 && IsHsaRuntime(__builtin_return_address(0))) {
    answered = true;
    return OwnWord();
  }
  return FindInEnvironment(name);
}

SIMROCM_EXPORT bool OnLoad(HsaApiTable* table, uint64_t version, uint64_t,
                           const char* const*) {
  int32_t status = ROCATTACH_REGISTER_NO_TOOLS;
  if (!simrocm::GetBool("HSA_TOOLS_DISABLE_REGISTER", false)) {
    void* tables[] = {table};
    rocattach_register_id id{};
    status = rocprofiler_register_library_api_table(ROCATTACH_REGISTER_NAME_HSA,
                                                    &rocprofiler_register_import_hsa,
                                                    10500, tables, 1, &id);
  }
  if (!answered) return true;
  if (status == ROCATTACH_REGISTER_SUCCESS &&
      !simrocm::GetBool("HSA_TOOLS_ROCPROFILER_V1_TOOLS", false)) {
    simrocm::Log("bridge.tools_skipped list=\"%s\"",
                 simrocm::GetString("HSA_TOOLS_LIB").c_str());
    return true;
  }
  LoadTools(table, version);
  return true;
}

SIMROCM_EXPORT void OnUnload() {
  for (void* handle : LoadedTools()) {
    auto on_unload = reinterpret_cast<OnUnloadFunction>(dlsym(handle, "OnUnload"));
    if (on_unload != nullptr) on_unload();
    dlclose(handle);
  }
  LoadedTools().clear();
}
