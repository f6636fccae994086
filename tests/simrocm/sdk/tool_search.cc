#include "tests/simrocm/sdk/tool_search.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

#include <algorithm>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/environment.h"

namespace simrocm::sdk {
namespace {

template <typename Function>
Function Symbol(void* handle, const char* name) {
  return reinterpret_cast<Function>(dlsym(handle, name));
}

void AddOnce(std::vector<FoundTool>* tools, FoundTool tool) {
  if (tool.configure == nullptr) return;
  for (const FoundTool& known : *tools) {
    if (known.configure == tool.configure) return;
  }
  tools->push_back(std::move(tool));
}

// The tool in an object that is loaded already; only if the object itself has the
// symbol, and not one of its dependencies.
FoundTool ToolInObject(const std::string& file, const char* from) {
  FoundTool tool{from, file};
  void* handle = dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return tool;
  auto configure = Symbol<rocattach_sdk_configure_fn>(handle, ROCATTACH_SDK_CONFIGURE);
  Dl_info info;
  if (configure != nullptr && dladdr(reinterpret_cast<void*>(configure), &info) != 0 &&
      file == info.dli_fname) {
    tool.configure = configure;
    tool.configure_attach = Symbol<rocattach_sdk_configure_attach_fn>(
        handle, ROCATTACH_SDK_CONFIGURE_ATTACH);
  }
  dlclose(handle);
  return tool;
}

FoundTool ToolOfSymbol(void* where, const char* from) {
  FoundTool tool{from, ""};
  auto configure = Symbol<rocattach_sdk_configure_fn>(where, ROCATTACH_SDK_CONFIGURE);
  Dl_info info;
  if (configure == nullptr || dladdr(reinterpret_cast<void*>(configure), &info) == 0) {
    return tool;
  }
  tool.file = info.dli_fname;
  tool.configure = configure;
  if (void* handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)) {
    tool.configure_attach = Symbol<rocattach_sdk_configure_attach_fn>(
        handle, ROCATTACH_SDK_CONFIGURE_ATTACH);
    dlclose(handle);
  }
  return tool;
}

std::vector<std::string> LoadedFiles() {
  std::vector<std::string> files;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        if (info->dlpi_name != nullptr && info->dlpi_name[0] == '/') {
          static_cast<std::vector<std::string>*>(data)->push_back(info->dlpi_name);
        }
        return 0;
      },
      &files);
  return files;
}

}  // namespace

std::vector<std::string> SplitToolLibraries(const std::string& list) {
  std::vector<std::string> entries;
  if (list.find(':') == std::string::npos) {
    if (!list.empty()) entries.push_back(list);
    return entries;
  }
  for (size_t start = 0, colon; (colon = list.find(':', start)) != std::string::npos;
       start = colon + 1) {
    if (colon > start) entries.push_back(list.substr(start, colon - start));
  }
  return entries;
}

FoundTool OpenTool(const std::string& path, const char* from) {
  void* handle = dlopen(path.c_str(), RTLD_LOCAL | RTLD_LAZY);
  if (handle == nullptr) {
    const char* reason = dlerror();
    Fatal("cannot open the tool library %s: %s", path.c_str(),
          reason != nullptr ? reason : "no reason given");
  }
  FoundTool tool{from, path};
  tool.configure = Symbol<rocattach_sdk_configure_fn>(handle, ROCATTACH_SDK_CONFIGURE);
  tool.configure_attach =
      Symbol<rocattach_sdk_configure_attach_fn>(handle, ROCATTACH_SDK_CONFIGURE_ATTACH);
  if (tool.configure == nullptr) {
    Log("sdk.tool_without_configure file=%s", path.c_str());
  }
  return tool;
}

std::vector<FoundTool> FindTools() {
  std::vector<FoundTool> tools;
  if (getauxval(AT_SECURE) == 0) {
    for (const std::string& path :
         SplitToolLibraries(GetString("ROCP_TOOL_LIBRARIES"))) {
      AddOnce(&tools, OpenTool(path, "ROCP_TOOL_LIBRARIES"));
    }
  }
  FoundTool visible = ToolOfSymbol(RTLD_DEFAULT, "symbol");
  bool scan = visible.configure != nullptr;
  AddOnce(&tools, std::move(visible));
  if (scan) {
    // Upstream reads all of every mapped library here, which is expensive.
    std::vector<std::string> files = LoadedFiles();
    Log("sdk.scan_link_map objects=%zu", files.size());
    for (const std::string& file : files)
      AddOnce(&tools, ToolInObject(file, "link_map"));
  }
  return tools;
}

}  // namespace simrocm::sdk
