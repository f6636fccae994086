// A parent for a service, which can end although the service cannot.
#ifndef ROCATTACH_USERSPACE_CLI_COMMON_PARENT_PROCESS_H_
#define ROCATTACH_USERSPACE_CLI_COMMON_PARENT_PROCESS_H_

#include <sys/types.h>

#include "absl/functional/function_ref.h"

namespace rocattach {

// Some waits cannot be ended, not even by SIGKILL: a page fault in memory in which a hole
// is being punched lasts as long as the process that punches it likes, and that is the
// attacker. A process that has a thread in one does not end, and whoever waits for it
// (systemd, a shell, a script) waits as well. So the service runs in a child:
// 1. The parent passes on the signals that it is sent, and ends as the child has ended.
// 2. A child that cannot end says so (EndParent), and leaves nothing open.
// 3. Without its parent the child is killed, too.
//
// Returns what `run` returns, in both processes: the parent in place of the child.
int RunBelowParent(absl::FunctionRef<int()> run);

// In the child, which is about to end with _exit(), but may not: the parent ends with
// this status now, and all files are closed. Elsewhere: no effect.
void EndParent(int status);

// What others know as the process of the service: the parent, or this process.
pid_t MainProcess();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_COMMON_PARENT_PROCESS_H_
