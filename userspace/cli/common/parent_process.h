// A parent process for a service, which can end even if the service cannot.
#ifndef ROCATTACH_USERSPACE_CLI_COMMON_PARENT_PROCESS_H_
#define ROCATTACH_USERSPACE_CLI_COMMON_PARENT_PROCESS_H_

#include <sys/types.h>

#include "absl/functional/function_ref.h"

namespace rocattach {

// Some waits cannot be ended, not even by SIGKILL: a page fault in memory in which a hole
// is being punched lasts as long as the punching process chooses, which may be an
// attacker's. A process with a thread in such a wait does not end, and whatever waits
// for it (systemd, a shell, a script) hangs as well. So the service runs in a child:
// 1. The parent forwards the signals that it gets, and ends in the way the child ends.
// 2. A child that cannot end says so (EndParent), and closes all of its files.
// 3. If the parent ends, the child is killed.
//
// Returns the result of `run` in both processes; in the parent, it is the child's.
int RunBelowParent(absl::FunctionRef<int()> run);

// In a child that is about to call _exit() but may be unable to end: makes the parent
// end with this status now, and closes all files. In other processes: no effect.
void EndParent(int status);

// The process that others know as the service: the parent, or else this process.
pid_t MainProcess();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_COMMON_PARENT_PROCESS_H_
