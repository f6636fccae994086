// One thread under PTRACE_SEIZE, let go again whatever happens.
#ifndef ROCATTACH_INJECTOR_TRACEE_H_
#define ROCATTACH_INJECTOR_TRACEE_H_

#include <sys/types.h>
#include <sys/user.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/strings/string_view.h"
#include "injector/failure.h"
#include "injector/remote_address.h"
#include "injector/trace_calls.h"

namespace rocattach {

// How many threads this process traces, and whether it may trace more: in memory that a
// watchdog of this process may share, because a tracer that is stopped keeps its
// tracees standing.
struct TraceGate {
  std::atomic<uint32_t> tracees = 0;
  std::atomic<uint32_t> closed = 0;  // 1: let everybody go, begin nothing
};

// All calls come from the thread that called Seize: ptrace belongs to a thread.
// No ptrace option is ever set, so that the end of this process lets the tracee run on
// (the kernel detaches it), at whatever instant it comes.
class Tracee {
 public:
  // `calls` must outlive it: the kernel's, unless for tests.
  explicit Tracee(TraceCalls& calls = TraceCalls::Kernel()) : calls_(calls) {}
  Tracee(const Tracee&) = delete;
  Tracee& operator=(const Tracee&) = delete;
  ~Tracee() { Release(); }

  // The gate that all tracees of this process pass, from the next Seize on. Call it
  // before any; `gate` must live as long as the process.
  static void UseGate(TraceGate* gate);
  // True while the gate is closed: whoever keeps tracees for longer than an attach
  // lets them go.
  static bool MustLetGo();

  // PTRACE_SEIZE without options: nothing that the target could notice. The thread and
  // its number stay paired until Release.
  // kTargetExited, kAlreadyTraced (another tracer), kNotPermitted.
  StepResult Seize(pid_t pid, pid_t tid);

  // For a thread that is seized ahead of time and runs on: deals with the stops that it
  // makes on its own. Signals are delivered, a stop of the whole process lasts.
  enum class Seen {
    kRunning,
    kHeld,  // stopped by ROCATTACH_STOP_SIGNAL from the kernel: stopped() is true now.
            // Release does not deliver the signal
    kGone,  // it has ended, or is not a tracee any more
  };
  Seen Keep();
  // After Keep reported kHeld: the thread runs on, seized. If no window asked for the
  // stop, it gets its signal (`deliver`).
  void Resume(bool deliver);

  // PTRACE_INTERRUPT: asks for a stop, does not wait for it.
  StepResult Interrupt();

  // Waits until the thread has stopped, at the latest until `deadline_ns`
  // (CLOCK_BOOTTIME). Any stop will do. A signal that was about to be delivered is
  // delivered by Release; a stop of the whole process (SIGSTOP) goes on after it.
  // `shares_cpu`: the thread can only run, and so come to its stop, when the calling
  // thread sleeps. `on_wait`, if not null, is called once if the stop takes long.
  // kTargetExited, kStopTimeout.
  StepResult WaitForStop(uint64_t deadline_ns, bool shares_cpu = false,
                         const std::function<void()>& on_wait = nullptr);

  // The general registers. kUnsupported if the thread runs 32-bit code.
  StepResult ReadRegisters(user_regs_struct* registers);

  // Sets rip, and nothing else.
  StepResult SetInstructionPointer(RemoteAddress address);

  // Writes through PTRACE_POKEDATA, eight bytes a call: for kernels that forbid it
  // through /proc/PID/mem.
  StepResult Poke(RemoteAddress address, absl::string_view bytes);

  // Lets the thread go. Idempotent. A thread that has been asked to stop and has not
  // done so cannot be detached (it may sit in an uninterruptible sleep): then
  // tracer_must_exit() is true from here on.
  void Release();

  // The same for whoever comes back: false if the thread has not come to its stop
  // within `patience_ns`. It is still a tracee then, will stand still when it does
  // stop, and this must be called again.
  bool TryRelease(uint64_t patience_ns);

  // It stands, and Release would let it go on.
  bool stopped() const { return state_ == State::kStopped; }

  // The kernel still has a tracee of this thread that only the end of this thread
  // sets free. Until then that tracee may come to stand still.
  bool tracer_must_exit() const { return tracer_must_exit_; }

  // When the thread was let go (CLOCK_BOOTTIME): read right before the detach, because
  // the thread may run, and this one be preempted by it, before the call returns. 0 if
  // it was not.
  uint64_t released_ns() const { return released_ns_; }

 private:
  enum class State { kNone, kSeized, kInterrupted, kStopped, kGone };

  enum class Stop { kNotYet, kStopped, kGone };
  // Looks for the stop, or waits for it until the thread's alarm. kGone: *error says
  // why, 0 if the thread has ended.
  Stop LookForStop(bool block, int* error);
  AttachFailure NoStop(uint64_t waited_ns) const;
  // Every change of the state, so that the gate's count is right.
  void Become(State state);
  // The last step of a release, from the stop.
  void Detach();
  AttachFailure Gone(absl::string_view call, int error);
  // What a call that returned `error` comes to; `reason` says why if it failed.
  StepResult Checked(absl::string_view call, int error, AttachReason reason);
  // Takes the exit of a tracee that died, so that its parent learns of it.
  void Reap();

  TraceCalls& calls_;
  State state_ = State::kNone;
  pid_t pid_ = 0;
  pid_t tid_ = 0;
  int pending_signal_ = 0;  // of a signal-delivery stop
  uint64_t released_ns_ = 0;
  bool tracer_must_exit_ = false;
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_TRACEE_H_
