// Threads that are blocked in a system call: where a running process can be entered if
// none of its threads calls the runtime.
#ifndef ROCATTACH_INJECTOR_BLOCKED_THREAD_H_
#define ROCATTACH_INJECTOR_BLOCKED_THREAD_H_

#include <sys/types.h>
#include <sys/user.h>

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "injector/stub.h"

namespace rocattach {

// The threads of `pid` that are blocked in a call that continues unnoticed after it has
// been interrupted by ptrace, best first. Not among them are calls that return EINTR
// then, whatever the tracer does: epoll_wait, sigtimedwait, semop and others
// (signal(7), "Interruption of system calls"). NOT_FOUND: the process is gone.
absl::StatusOr<std::vector<pid_t>> BlockedThreads(pid_t pid);

// Whether the thread is blocked in such a call at this instant. The service's own
// shortage of descriptors counts as no.
bool IsBlockedThread(pid_t pid, pid_t tid);

// `registers` are those of a thread that was stopped inside a system call. Returns what
// they must be for the thread to do what it would have done without the stop, if it is
// sent elsewhere first: the kernel continues an interrupted call only where it was
// interrupted. `before_ip` are the two bytes of code before the instruction pointer.
// FAILED_PRECONDITION: the thread is not in a system call.
absl::StatusOr<user_regs_struct> ContinueCall(const user_regs_struct& registers,
                                              absl::string_view before_ip);

// What ContinueCall leaves open: which handlers of signals would have ended the call
// that is interrupted in `registers`.
EndingHandlers HandlersThatEnd(const user_regs_struct& registers);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_BLOCKED_THREAD_H_
