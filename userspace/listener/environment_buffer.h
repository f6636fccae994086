// The environment variables that a tool gets from the program that attaches it.
#ifndef ROCATTACH_USERSPACE_LISTENER_ENVIRONMENT_BUFFER_H_
#define ROCATTACH_USERSPACE_LISTENER_ENVIRONMENT_BUFFER_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace rocattach {

using Variables = std::vector<std::pair<std::string, std::string>>;

// The variables in `environment` ("NAME=VALUE"; null-terminated) that are for a tool:
// those whose names begin with ROCP, as ROCm's own attach passes them on. Excluded are
// variables that decide what rocprofiler-register loads, now and in the target's later
// children (ROCPROFILER_REGISTER_…, ROCP_TOOL_LIBRARIES, ROCP_TOOL_ATTACH), and
// ROCPROF_ATTACH_…, which are for the program that attaches.
Variables ToolVariables(const char* const* environment);

// The format that rocprofiler_register_attach() reads: the number of variables as a
// native uint32_t, then each name and each value, terminated by a zero byte.
std::string EnvironmentBuffer(const Variables& variables);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LISTENER_ENVIRONMENT_BUFFER_H_
