// The variables that a tool gets from whoever attaches it.
#ifndef ROCATTACH_USERSPACE_LISTENER_ENVIRONMENT_BUFFER_H_
#define ROCATTACH_USERSPACE_LISTENER_ENVIRONMENT_BUFFER_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace rocattach {

using Variables = std::vector<std::pair<std::string, std::string>>;

// Those of `environment` ("NAME=VALUE"; null-terminated) that are for a tool: names
// that begin with ROCP, as ROCm's own attach passes them on. Not among them are those
// that decide what rocprofiler-register loads, now and in the target's later children:
// ROCPROFILER_REGISTER_…, ROCP_TOOL_LIBRARIES, ROCP_TOOL_ATTACH; nor ROCPROF_ATTACH_…,
// which are for the program that attaches.
Variables ToolVariables(const char* const* environment);

// As rocprofiler_register_attach() reads it: their number as a uint32_t of the machine,
// then each name and each value with a zero behind it.
std::string EnvironmentBuffer(const Variables& variables);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LISTENER_ENVIRONMENT_BUFFER_H_
