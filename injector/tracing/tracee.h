// One thread under PTRACE_SEIZE, released in all cases.
#ifndef ROCATTACH_INJECTOR_TRACING_TRACEE_H_
#define ROCATTACH_INJECTOR_TRACING_TRACEE_H_

#include <sys/types.h>
#include <sys/user.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "absl/strings/string_view.h"
#include "injector/failure.h"
#include "injector/stub/remote_address.h"
#include "injector/tracing/trace_calls.h"
#include "injector/tracing/wait_status.h"

namespace rocattach {

// Number of threads that this process traces, and whether it may trace more. Can be in
// memory shared with the guard, because the tracees of a stopped tracer remain stopped.
struct TraceGate {
  std::atomic<uint32_t> tracees = 0;
  std::atomic<uint32_t> closed = 0;  // 1: release all tracees, seize no more
};

// All calls come from the thread that called Seize: ptrace belongs to a thread. The
// only ptrace option that is ever set is PTRACE_O_TRACESYSGOOD, so the tracee runs on
// (the kernel detaches it) whenever this process ends.
class Tracee {
 public:
  // `calls` must outlive it; only tests replace the kernel's.
  explicit Tracee(TraceCalls& calls = TraceCalls::Kernel()) : calls_(calls) {}
  Tracee(const Tracee&) = delete;
  Tracee& operator=(const Tracee&) = delete;
  ~Tracee() { Release(); }

  // Sets the gate of all tracees of this process. Call it before the first Seize;
  // `gate` must live as long as the process.
  static void UseGate(TraceGate* gate);
  // True while the gate is closed: tracees kept for longer than an attach must be
  // released.
  static bool MustLetGo();

  // PTRACE_SEIZE without options, so that the target cannot notice it. The thread ID
  // cannot be reused until Release. kTargetExited, kAlreadyTraced (another tracer),
  // kNotPermitted.
  StepResult Seize(pid_t pid, pid_t tid);

  // For a thread that is seized ahead of time and runs on: handles stops that the
  // tracer did not request. Signals are delivered; a stop of the whole process remains
  // in effect.
  enum class Seen {
    kRunning,
    kHeld,  // stopped by ROCATTACH_STOP_SIGNAL from the kernel: stopped() is true now.
            // Release does not deliver the signal
    kGone,  // it has ended, or is no longer a tracee
  };
  Seen Keep() { return Keep(/*block=*/false); }
  // The same, but sleeps until `deadline_ns` (CLOCK_BOOTTIME) if the thread is running.
  Seen Await(uint64_t deadline_ns);
  // After Keep reported kHeld: lets the thread run on, seized. `deliver` passes it the
  // signal, which is right if no window requested the stop.
  void Resume(bool deliver);

  // True if the thread has ended, or is no longer a tracee; changes nothing else. For a
  // thread that is kept stopped: an exec by another thread of its process kills it, and
  // waits until its tracer has noticed that.
  bool HasEnded();

  // PTRACE_INTERRUPT: requests a stop without waiting for it.
  StepResult Interrupt();

  // Waits until the thread has stopped, but not beyond `deadline_ns` (CLOCK_BOOTTIME).
  // Any stop will do. A signal that was about to be delivered is delivered by Release;
  // a stop of the whole process (SIGSTOP) continues after it. `shares_cpu`: the thread
  // can run, and so stop, only while the calling thread sleeps. `on_wait`, if not null,
  // is called once if the stop takes long. kTargetExited, kStopTimeout.
  StepResult WaitForStop(uint64_t deadline_ns, bool shares_cpu = false,
                         const std::function<void()>& on_wait = nullptr);

  // From a stop: lets the thread run to the entry or the end of its next system call,
  // and stops it there. Signals are delivered on the way. Fails as WaitForStop does;
  // kStopTimeout also if the whole process was stopped on the way.
  StepResult RunToSystemCall(uint64_t deadline_ns, bool shares_cpu,
                             SystemCallStop* stop);

  // The general registers. kUnsupported if the thread runs 32-bit code.
  StepResult ReadRegisters(user_regs_struct* registers);

  // Checks that the thread's system calls are not, and can at no time be, turned into
  // SIGSYS (prctl(2), PR_SET_SYSCALL_USER_DISPATCH): those of the stub and of the
  // loader would be too, wherever they are made. kSystemCallDispatch. OK where the
  // kernel does not tell: before Linux 6.4, although it has the dispatch from 5.11 on.
  StepResult CheckNotDispatched();

  // Sets rip, and nothing else.
  StepResult SetInstructionPointer(RemoteAddress address);

  // Sets all general registers in one call, so that the thread never has only some of
  // them, whenever the calling thread dies.
  StepResult SetRegisters(const user_regs_struct& registers);

  // The signal whose delivery the stop has delayed; 0: none.
  int pending_signal() const { return pending_signal_; }

  // Writes through PTRACE_POKEDATA, eight bytes per call: for kernels that forbid
  // writes through /proc/PID/mem.
  StepResult Poke(RemoteAddress address, absl::string_view bytes);

  // Releases the thread. Idempotent. A thread that was asked to stop and has not done
  // so cannot be detached (it may be in uninterruptible sleep): tracer_must_exit() is
  // then true from here on.
  void Release();

  // Leaves the release to the end of the calling thread, which must follow. The tracee
  // is not stopped for this, whereas Release stops one that runs.
  void ReleaseByEnd();

  // Release for callers that retry: false if the thread has not stopped within
  // `patience_ns`. It is still a tracee then and will remain stopped once it does stop,
  // so this must be called again.
  bool TryRelease(uint64_t patience_ns);

  // True if the thread is stopped, and Release would let it run.
  bool stopped() const { return state_ == State::kStopped; }

  // True if the kernel still has a tracee of this thread that only the end of this
  // thread releases. Until then that tracee may stop and remain stopped.
  bool tracer_must_exit() const { return tracer_must_exit_; }

  // The time at which the thread was released (CLOCK_BOOTTIME), read right before the
  // detach, because the thread may run, and preempt this one, before the call returns.
  // 0 if it was not released.
  uint64_t released_ns() const { return released_ns_; }

 private:
  enum class State { kNone, kSeized, kInterrupted, kStopped, kGone };

  Seen Keep(bool block);

  enum class Stop { kNotYet, kStopped, kGone };
  // Checks for the stop, or waits for it until the thread's alarm. kGone: *error is the
  // reason, 0 if the thread has ended.
  Stop LookForStop(bool block, int* error);
  AttachFailure NoStop(uint64_t waited_ns) const;
  // Makes every change of the state, so that the gate's count is right.
  void Become(State state);
  // The last step of a release, from the stop.
  void Detach();
  AttachFailure Gone(absl::string_view call, int error);
  // The result of a call that returned `error`; `reason` is used if it failed.
  StepResult Checked(absl::string_view call, int error, AttachReason reason);
  // Collects the exit of a dead tracee, so that its parent is notified.
  void Reap();

  TraceCalls& calls_;
  State state_ = State::kNone;
  pid_t pid_ = 0;
  pid_t tid_ = 0;
  int pending_signal_ = 0;  // from a signal-delivery stop
  std::optional<WaitStatus> last_stop_;
  uint64_t released_ns_ = 0;
  bool tracer_must_exit_ = false;
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_TRACING_TRACEE_H_
