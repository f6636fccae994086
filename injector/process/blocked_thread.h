// Threads that are blocked in a system call: the places where a running process can be
// entered if none of its threads calls the runtime.
#ifndef ROCATTACH_INJECTOR_PROCESS_BLOCKED_THREAD_H_
#define ROCATTACH_INJECTOR_PROCESS_BLOCKED_THREAD_H_

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "injector/process/maps.h"
#include "injector/stub/remote_address.h"
#include "injector/stub/stub.h"

namespace rocattach {

// A system call that continues unnoticed after an interruption by ptrace. Excluded are
// calls that then return EINTR, whatever the tracer does: epoll_wait, sigtimedwait,
// semop and others (signal(7), "Interruption of system calls"); and waits for a lock of
// the C library (IsLibraryLock).
struct BlockedCall {
  uint64_t number = 0;
  uint64_t argument = 0;  // the first one

  // True if a thread with these registers is in this call.
  bool IsOf(const user_regs_struct& registers) const {
    return registers.orig_rax == number && registers.rdi == argument;
  }
};

// Returns the threads of `pid` that are blocked in such a call, best first. NOT_FOUND:
// the process is gone.
absl::StatusOr<std::vector<pid_t>> BlockedThreads(pid_t pid);

// Returns the call in which the thread is blocked at this instant, if it is such a
// call; empty otherwise, and also if the service itself is short of descriptors.
std::optional<BlockedCall> FindBlockedCall(pid_t pid, pid_t tid);

// `registers` are those of a thread that was stopped inside a system call. Returns the
// registers with which the thread, after it has been sent elsewhere, does what it would
// have done without the stop: the kernel continues an interrupted call only where it
// was interrupted. `before_ip` are the two bytes of code before the instruction
// pointer. FAILED_PRECONDITION: the thread is not in a system call.
absl::StatusOr<user_regs_struct> ContinueCall(const user_regs_struct& registers,
                                              absl::string_view before_ip);

// The signal handlers that would have ended the call interrupted in `registers`, which
// ContinueCall does not take into account.
EndingHandlers HandlersThatEnd(const user_regs_struct& registers);

// True if the futex at `address` is a lock of the C library, the dynamic loader or one
// of malloc's arenas. A thread that waits for such a lock may hold others of them: fork
// holds all arenas before the one that it waits for. dlopen in that thread would wait
// for the thread itself. `maps` must be those of the whole process. A lock of the
// program at an address where an arena's would be is taken for one, too.
bool IsLibraryLock(const Maps& maps, RemoteAddress address);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PROCESS_BLOCKED_THREAD_H_
