// The system calls of a tracer, and its clock.
#ifndef ROCATTACH_INJECTOR_TRACING_TRACE_CALLS_H_
#define ROCATTACH_INJECTOR_TRACING_TRACE_CALLS_H_

#include <signal.h>
#include <sys/types.h>
#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "injector/process/thread_status.h"
#include "injector/tracing/wait_status.h"

namespace rocattach {

// A thread at the entry or the end of a system call.
struct SystemCallStop {
  bool at_end = false;
  uint64_t ip = 0;     // behind the instruction that made the call
  int64_t result = 0;  // at the end; negative: an errno
};

// The system calls of a Tracee, as an interface so that its states can be tested
// without processes. The calls that return an int return 0 or an errno. Stateless;
// ptrace and the alarm belong to the calling thread.
class TraceCalls {
 public:
  // The implementation that calls the kernel.
  static TraceCalls& Kernel();

  virtual ~TraceCalls() = default;

  virtual int Seize(pid_t tid) = 0;
  virtual int Interrupt(pid_t tid) = 0;
  // `signal` is delivered; 0: none.
  virtual int Continue(pid_t tid, int signal) = 0;
  // Makes the entry and the end of a system call stops of a kind of their own.
  virtual int DistinguishSystemCalls(pid_t tid) = 0;
  // Continues the thread until the entry or the end of its next system call.
  virtual int ContinueToSystemCall(pid_t tid, int signal) = 0;
  // Describes the system call, at such a stop.
  virtual int GetSystemCall(pid_t tid, SystemCallStop* stop) = 0;
  virtual int Detach(pid_t tid, int signal) = 0;
  virtual int Listen(pid_t tid) = 0;
  virtual int GetSignalInfo(pid_t tid, siginfo_t* info) = 0;
  // *bytes: number of bytes that the kernel has filled in.
  virtual int GetRegisters(pid_t tid, user_regs_struct* registers, size_t* bytes) = 0;
  // *on: true if PR_SET_SYSCALL_USER_DISPATCH is on, with any selector and range.
  virtual int GetDispatch(pid_t tid, bool* on) = 0;
  virtual int SetRegisters(pid_t tid, const user_regs_struct& registers) = 0;
  virtual int PokeUser(pid_t tid, size_t offset, uint64_t value) = 0;
  virtual int PeekData(pid_t tid, uint64_t address, uint64_t* word) = 0;
  virtual int PokeData(pid_t tid, uint64_t address, uint64_t word) = 0;

  // The thread's pending wait status, without consuming it: a stop need not be
  // consumed, and an exit may have to be collected by another part of this process.
  // Empty: none yet. With `block` it waits for one, or until a signal arrives.
  virtual int Peek(pid_t tid, bool block, std::optional<WaitStatus>* status) = 0;
  // Consumes the exit of a thread.
  virtual void Collect(pid_t tid) = 0;
  virtual absl::StatusOr<ThreadStatus> ReadStatus(pid_t pid, pid_t tid) = 0;
  // The ID of this process.
  virtual pid_t Self() = 0;

  virtual uint64_t NowNs() = 0;  // CLOCK_BOOTTIME
  virtual void Yield() = 0;
  virtual void Sleep(uint64_t ns) = 0;
  // These use the WaitAlarm of the calling thread.
  virtual bool ArmAlarm(uint64_t after_ns) = 0;
  virtual void DisarmAlarm() = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_TRACING_TRACE_CALLS_H_
