// Finds and checks running processes for which a late attach can be requested.
#ifndef ROCATTACH_USERSPACE_WATCH_LATE_RUNNING_PROCESS_H_
#define ROCATTACH_USERSPACE_WATCH_LATE_RUNNING_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "injector/process/maps.h"

namespace rocattach {

// True if `ancestor` is the process itself or one of its ancestors.
bool IsBelow(pid_t pid, pid_t ancestor);

// OK if `pid` is a living user-space process. Otherwise states what it is: NOT_FOUND if
// nothing has this ID, INVALID_ARGUMENT if it is a thread, a kernel thread, a zombie or
// the calling process.
absl::Status CheckIsProcess(pid_t pid);

// UNIMPLEMENTED if the process, which has these mappings, does not execute the HSA
// runtime where it is mapped (injector/process/translation.h): a probe would end it, and code
// that is written into these mappings would not be executed.
absl::Status CheckIsExecuted(pid_t pid, const Maps& maps);

// FAILED_PRECONDITION if the process has not loaded the HSA runtime; or as above.
absl::Status CheckUsesRuntime(pid_t pid);

// UNAVAILABLE if the process is stopped (SIGSTOP) or frozen by its control
// group: none of its threads would load anything until that ends.
absl::Status CheckIsRunning(pid_t pid);

// `roots` and all their descendants, parents first, each once.
std::vector<pid_t> WithDescendants(const std::vector<pid_t>& roots);

// The processes of a control group and of those below it. `path` is a directory of the
// cgroup file system, or a path as in /proc/PID/cgroup ("/system.slice/…"). NOT_FOUND
// if there is no such group.
absl::StatusOr<std::vector<pid_t>> ProcessesOfCgroup(const std::string& path);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_LATE_RUNNING_PROCESS_H_
