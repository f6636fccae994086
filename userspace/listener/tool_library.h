// Tool libraries that a target is to load, as the target finds them.
#ifndef ROCATTACH_USERSPACE_LISTENER_TOOL_LIBRARY_H_
#define ROCATTACH_USERSPACE_LISTENER_TOOL_LIBRARY_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rocattach {

// The libraries in a colon-separated list, without empty parts and without this
// project's own, which are attached without the listener.
std::vector<std::string> ForeignTools(absl::string_view list);

// The path of a library in the root of process `pid`, which may be a container's. A
// name without a slash is searched for as the loader would do for rocprofiler-sdk at
// `sdk`: several versions of rocprofiler-register abort the process if there is no such
// library. The file must be regular, an x86-64 shared object, readable by the target's
// user, and must not lie on a file system that forbids its execution. It has to export
// rocprofiler_configure and rocprofiler_configure_attach, and the process must be able
// to load its dependencies. INVALID_ARGUMENT says what is wrong.
absl::StatusOr<std::string> FindToolLibrary(pid_t pid, const std::string& library,
                                            const std::string& sdk);

// True if rocprofiler-sdk at `sdk`, in the root of process `pid`, attaches one tool by
// its path. Older releases read a list, at which newer ones end the process.
bool AttachesOneTool(pid_t pid, const std::string& sdk);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LISTENER_TOOL_LIBRARY_H_
