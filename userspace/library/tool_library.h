// A tool library that a target is to load, as the target would find it.
#ifndef ROCATTACH_USERSPACE_LIBRARY_TOOL_LIBRARY_H_
#define ROCATTACH_USERSPACE_LIBRARY_TOOL_LIBRARY_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace rocattach {

// Checks a path in the file system of the process `pid`, which may be a container's: it
// must be a regular file and an x86-64 shared object. INVALID_ARGUMENT says what is
// wrong. OK for a name without a slash: the target's loader searches for that.
absl::Status CheckToolLibrary(pid_t pid, const std::string& library);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_TOOL_LIBRARY_H_
