// Whether a process could load a library, determined from outside.
#ifndef ROCATTACH_USERSPACE_LISTENER_LIBRARY_NEEDS_H_
#define ROCATTACH_USERSPACE_LISTENER_LIBRARY_NEEDS_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace rocattach {

// Checks that the process has, or its loader would find, every library that the one at
// `path` (in the process's root) needs, and the libraries that those need, and that
// they have the versions of symbols that it asks for. A dlopen() that fails is harmless
// in itself, but rocprofiler-sdk ends the process after one. FAILED_PRECONDITION names
// what is missing.
absl::Status CheckLibraryNeeds(pid_t pid, const std::string& path);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LISTENER_LIBRARY_NEEDS_H_
