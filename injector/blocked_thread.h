// Threads that are blocked in a system call: where a running process can be entered if
// none of its threads calls the runtime.
#ifndef ROCATTACH_INJECTOR_BLOCKED_THREAD_H_
#define ROCATTACH_INJECTOR_BLOCKED_THREAD_H_

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "injector/stub.h"

namespace rocattach {

// A call that continues unnoticed after it has been interrupted by ptrace. Not among
// them are calls that return EINTR then, whatever the tracer does: epoll_wait,
// sigtimedwait, semop and others (signal(7), "Interruption of system calls"); nor is a
// wait for a lock of the C library (library_locks.h).
struct BlockedCall {
  uint64_t number = 0;
  uint64_t argument = 0;  // the first one

  // Whether a thread with these registers is in this call.
  bool IsOf(const user_regs_struct& registers) const {
    return registers.orig_rax == number && registers.rdi == argument;
  }
};

// The threads of `pid` that are blocked in such a call, best first. NOT_FOUND: the
// process is gone.
absl::StatusOr<std::vector<pid_t>> BlockedThreads(pid_t pid);

// The call that the thread is blocked in at this instant, if it is such a call. The
// service's own shortage of descriptors counts as none.
std::optional<BlockedCall> FindBlockedCall(pid_t pid, pid_t tid);

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
