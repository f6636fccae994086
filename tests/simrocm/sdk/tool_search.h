// Searches the process for tools, in upstream's order.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_TOOL_SEARCH_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_TOOL_SEARCH_H_

#include <string>
#include <vector>

#include "userspace/collector/sdk/abi_tool.h"

namespace simrocm::sdk {

struct FoundTool {
  std::string from;  // "ROCP_TOOL_LIBRARIES", "symbol", "link_map", …
  std::string file;
  rocattach_sdk_configure_fn configure = nullptr;
  rocattach_sdk_configure_attach_fn configure_attach = nullptr;  // may be missing
};

// The entries of ROCP_TOOL_LIBRARIES. Upstream's parser drops what follows the last
// ':', so that a list needs a ':' at its end; a single name does not.
std::vector<std::string> SplitToolLibraries(const std::string& list);

// Opens a library with RTLD_LOCAL | RTLD_LAZY. Without the symbol the tool has no
// configure function. Aborts if the library cannot be opened.
FoundTool OpenTool(const std::string& path, const char* from);

// The tools of ROCP_TOOL_LIBRARIES, then that of the symbol as the process sees it,
// then, only if that exists, those of all loaded objects. Each function is there once.
std::vector<FoundTool> FindTools();

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_TOOL_SEARCH_H_
