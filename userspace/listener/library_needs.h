// Checks from outside whether a process could load a library.
#ifndef ROCATTACH_USERSPACE_LISTENER_LIBRARY_NEEDS_H_
#define ROCATTACH_USERSPACE_LISTENER_LIBRARY_NEEDS_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace rocattach {

// Checks that the process has, or its loader would find, every library that the one at
// `path` (in the process's root) depends on, directly or indirectly, and that they have
// the symbol versions that are required. A failed dlopen() is harmless in itself, but
// rocprofiler-sdk ends the process after one. FAILED_PRECONDITION names what is
// missing.
absl::Status CheckLibraryNeeds(pid_t pid, const std::string& path);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LISTENER_LIBRARY_NEEDS_H_
