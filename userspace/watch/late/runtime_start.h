// Determines whether a process has started its HSA runtime, without touching it.
#ifndef ROCATTACH_USERSPACE_WATCH_LATE_RUNTIME_START_H_
#define ROCATTACH_USERSPACE_WATCH_LATE_RUNTIME_START_H_

#include <sys/types.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "injector/stub/remote_address.h"

namespace rocattach {

enum class RuntimeStart {
  kNotLoaded,   // no copy of the library is mapped
  kNotStarted,  // hsa_init has not been called, or the last hsa_shut_down has
  kUnknown,     // it is being loaded, or its code is not understood
  kStarted,     // it is open
};

// One copy of the library in a process. A program that mixes a system's runtime with
// that of a Python package has two, and usually starts one of them.
struct LoadedRuntime {
  RemoteAddress code_begin, code_end;
  RuntimeStart start = RuntimeStart::kNotLoaded;
};

// The runtime keeps its only object in a static variable that is null unless it is
// open. Most of its functions first test that variable, by code that refers to it: the
// only variable to which several of them refer is that one. All this is only read.
// NOT_FOUND: the process is gone. PERMISSION_DENIED: it may not be inspected.
absl::StatusOr<std::vector<LoadedRuntime>> ReadRuntimes(pid_t pid);

// For all copies: kStarted if one of them is started, else kUnknown if one may be.
absl::StatusOr<RuntimeStart> ReadRuntimeStart(pid_t pid);

// FAILED_PRECONDITION if the process has not loaded its HSA runtime, or not started it.
// If that is unknown, it counts as started.
absl::Status CheckRuntimeStarted(pid_t pid);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_LATE_RUNTIME_START_H_
