#include "userspace/listener/environment_buffer.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

bool IsForTools(absl::string_view name) {
  return absl::StartsWith(name, "ROCP") &&
         !absl::StartsWith(name, "ROCPROFILER_REGISTER_") &&
         !absl::StartsWith(name, "ROCPROF_ATTACH_") && name != "ROCP_TOOL_LIBRARIES" &&
         name != "ROCP_TOOL_ATTACH";
}

}  // namespace

Variables ToolVariables(const char* const* environment) {
  Variables variables;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const absl::string_view text = *environment;
    const size_t equals = text.find('=');
    if (equals == absl::string_view::npos || !IsForTools(text.substr(0, equals))) {
      continue;
    }
    variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::string EnvironmentBuffer(const Variables& variables) {
  const auto count = static_cast<uint32_t>(variables.size());
  std::string buffer(reinterpret_cast<const char*>(&count), sizeof(count));
  for (const auto& [name, value] : variables) {
    buffer.append(name).push_back('\0');
    buffer.append(value).push_back('\0');
  }
  return buffer;
}

}  // namespace rocattach
