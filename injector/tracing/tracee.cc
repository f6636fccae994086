#include "injector/tracing/tracee.h"

#include <errno.h>
#include <signal.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bpf/watch_events.h"
#include "injector/fault.h"
#include "injector/process/denial.h"
#include "injector/process/thread_status.h"
#include "injector/tracing/wait_status.h"

namespace rocattach {
namespace {

// Time limit for reaping a tracee that has died; a killed process is not reaped until
// its last thread has left the kernel.
constexpr uint64_t kReapNs = 1'000'000'000;

// The process's own gate, until the guard shares another one.
TraceGate own_gate;
std::atomic<TraceGate*> current_gate = &own_gate;

TraceGate& Gate() {
  return *current_gate.load(std::memory_order_acquire);
}

// Tracees that only the end of the calling thread releases.
struct LeftToTheEnd {
  uint32_t count = 0;
  ~LeftToTheEnd() { Gate().tracees -= count; }
};
thread_local LeftToTheEnd left_to_the_end;

static_assert(ROCATTACH_STOP_SIGNAL == SIGURG, "as bpf/watch_events.h says");

// The thread usually has stopped already when this is first checked, or stops within
// microseconds on another CPU: the wait spins for this long.
constexpr uint64_t kYieldNs = 30'000;

// A wait that takes longer than this counts as long.
constexpr uint64_t kShortWaitNs = 100'000;

// A wait is interrupted more often than this. If more time passed between two checks,
// the machine was paused (a virtual machine), and the awaited thread had none of that
// time either.
constexpr uint64_t kStallNs = 60'000'000;

// The longer the wait, the longer the sleeps: many of these threads may wait at once,
// and together they must leave the CPUs to those that they wait for.
void Nap(TraceCalls& calls, uint64_t waited_ns) {
  constexpr uint64_t kShortestNs = 15'000, kLongestNs = 2'000'000;
  calls.Sleep(std::clamp(waited_ns / 4, kShortestNs, kLongestNs));
}

void Pause(TraceCalls& calls, uint64_t waited_ns) {
  if (waited_ns < kYieldNs) {
    calls.Yield();
  } else {
    Nap(calls, waited_ns);
  }
}

constexpr int kSeizeTries = 2;

// Explains EPERM or EACCES of PTRACE_SEIZE: a tracer, a dead thread, or a policy.
AttachFailure WhyNotPermitted(TraceCalls& calls, pid_t pid, pid_t tid, int error) {
  auto status = calls.ReadStatus(pid, tid);
  if (!status.ok() && IsOwnShortage(ErrnoOf(status.status()))) {
    return FailureFromProc(status.status());
  }
  if (!status.ok() || status->state == 'Z' || status->state == 'X') {
    return {AttachReason::kTargetExited, EPERM,
            absl::StrCat("PTRACE_SEIZE(", tid, "): the thread has exited")};
  }
  if (status->tracer != 0) {
    return {AttachReason::kAlreadyTraced, EPERM,
            absl::StrCat("PTRACE_SEIZE(", tid, "): process ", status->tracer,
                         " traces it; attach again when that one has detached"),
            true};
  }
  return {AttachReason::kNotPermitted, error,
          absl::StrCat("PTRACE_SEIZE(", tid, ") is not permitted (",
                       strerrorname_np(error), "): ", ExplainTraceDenial(pid))};
}

}  // namespace

void Tracee::UseGate(TraceGate* gate) {
  current_gate.store(gate, std::memory_order_release);
}

bool Tracee::MustLetGo() {
  return Gate().closed.load(std::memory_order_acquire) != 0;
}

void Tracee::Become(State state) {
  auto is_traced = [](State s) { return s != State::kNone && s != State::kGone; };
  if (is_traced(state_) && !is_traced(state)) {
    if (tracer_must_exit_) {
      ++left_to_the_end.count;
    } else {
      --Gate().tracees;
    }
  }
  state_ = state;
}

AttachFailure Tracee::Gone(absl::string_view call, int error) {
  Become(State::kGone);
  Reap();
  return {AttachReason::kTargetExited, error,
          absl::StrCat(call, "(", tid_, "): the thread has exited")};
}

StepResult Tracee::Checked(absl::string_view call, int error, AttachReason reason) {
  if (error == 0) return StepOk();
  // ESRCH: a dying tracee is no longer stopped.
  if (error == ESRCH) return Gone(call, error);
  return AttachFailure{reason, error,
                       absl::StrCat(call, "(", tid_, "): ", strerrorname_np(error))};
}

StepResult Tracee::Seize(pid_t pid, pid_t tid) {
  pid_ = pid;
  tid_ = tid;
  // Counted first: when the guard sees no tracees, there must be none.
  ++Gate().tracees;
  if (MustLetGo()) {
    --Gate().tracees;
    return AttachFailure{AttachReason::kStopTimeout, 0,
                         "the service is being stopped (SIGSTOP or ^Z), and must "
                         "not trace threads",
                         true};
  }
  int error = 0;
  for (int tries = 1;; ++tries) {
    error = calls_.Seize(tid);
    if (error == 0) {
      Become(State::kSeized);
      return StepOk();
    }
    if (error != EPERM && error != EACCES) break;
    AttachFailure why = WhyNotPermitted(calls_, pid, tid, error);
    // A tracer may have let it go between the call and the look at its status.
    if (why.reason == AttachReason::kNotPermitted && tries < kSeizeTries) continue;
    --Gate().tracees;
    return why;
  }
  --Gate().tracees;
  AttachFailure failure = FailureFromErrno(
      error, AttachReason::kNotPermitted,
      absl::StrCat("PTRACE_SEIZE(", tid, "): ", strerrorname_np(error)));
  failure.retryable = false;
  return failure;
}

Tracee::Seen Tracee::Keep(bool block) {
  std::optional<WaitStatus> status;
  if (calls_.Peek(tid_, block, &status) != 0) {
    Become(State::kNone);
    return Seen::kGone;
  }
  if (!status.has_value()) return Seen::kRunning;
  if (!status->is_stop()) {
    Become(State::kGone);
    Reap();
    return Seen::kGone;
  }
  if (status->kind() == WaitStatus::Kind::kGroupStop) {
    // The whole process has been stopped: it remains so until its SIGCONT.
    (void)calls_.Listen(tid_);
    return Seen::kRunning;
  }
  const int signal =
      status->kind() == WaitStatus::Kind::kSignalStop ? status->signal() : 0;
  siginfo_t why = {};
  if (signal == ROCATTACH_STOP_SIGNAL && calls_.GetSignalInfo(tid_, &why) == 0 &&
      why.si_code == SI_KERNEL) {
    pending_signal_ = 0;
    Become(State::kStopped);
    return Seen::kHeld;
  }
  (void)calls_.Continue(tid_, signal);
  return Seen::kRunning;
}

Tracee::Seen Tracee::Await(uint64_t deadline_ns) {
  // Before anything else: the thread may stop at any time, and then waits for us.
  const uint64_t begin_ns = calls_.NowNs();
  const bool armed = deadline_ns > begin_ns && calls_.ArmAlarm(deadline_ns - begin_ns);
  Seen seen;
  while ((seen = Keep(/*block=*/armed)) == Seen::kRunning &&
         calls_.NowNs() < deadline_ns) {
    if (!armed) Nap(calls_, 0);
  }
  if (armed) calls_.DisarmAlarm();
  return seen;
}

bool Tracee::HasEnded() {
  if (state_ == State::kNone || state_ == State::kGone) return true;
  std::optional<WaitStatus> status;
  const int error = calls_.Peek(tid_, /*block=*/false, &status);
  if (error == 0 && (!status.has_value() || status->is_stop())) return false;
  (void)Gone("waitid", error);
  return true;
}

void Tracee::ReleaseByEnd() {
  if (state_ == State::kNone || state_ == State::kGone) return;
  tracer_must_exit_ = true;
  Become(State::kNone);
}

void Tracee::Resume(bool deliver) {
  if (state_ != State::kStopped) return;
  const int error = calls_.Continue(tid_, deliver ? ROCATTACH_STOP_SIGNAL : 0);
  if (error == 0) {
    Become(State::kSeized);
  } else {
    (void)Gone("PTRACE_CONT", error);
  }
}

StepResult Tracee::Interrupt() {
  RETURN_IF_FAILED(
      Checked("PTRACE_INTERRUPT", calls_.Interrupt(tid_), AttachReason::kInternal));
  Become(State::kInterrupted);
  return StepOk();
}

Tracee::Stop Tracee::LookForStop(bool block, int* error) {
  std::optional<WaitStatus> status;
  *error = calls_.Peek(tid_, block, &status);
  if (*error != 0) return Stop::kGone;
  if (!status.has_value()) return Stop::kNotYet;
  if (!status->is_stop()) return Stop::kGone;
  // A signal that was about to be delivered is delivered on release.
  pending_signal_ =
      status->kind() == WaitStatus::Kind::kSignalStop ? status->signal() : 0;
  last_stop_ = status;
  Become(State::kStopped);
  return Stop::kStopped;
}

AttachFailure Tracee::NoStop(uint64_t waited_ns) const {
  return {AttachReason::kStopTimeout, 0,
          absl::StrCat("thread ", tid_, " did not stop within ", waited_ns / 1'000'000,
                       " ms: it is frozen, or asleep where it cannot be interrupted"),
          true};
}

// 1. Polls briefly, unless that keeps the thread from stopping.
// 2. Blocks, until the stop or until the wait counts as long.
// 3. Calls on_wait, and blocks until the stop or the deadline.
StepResult Tracee::WaitForStop(uint64_t deadline_ns, bool shares_cpu,
                               const std::function<void()>& on_wait) {
  const uint64_t begin_ns = calls_.NowNs();
  bool armed = false, is_long = false;
  uint64_t look_ns = begin_ns;
  int error = 0;
  Stop seen;
  while ((seen = LookForStop(armed, &error)) == Stop::kNotYet) {
    const uint64_t now_ns = calls_.NowNs();
    const uint64_t waited_ns = now_ns - begin_ns;
    if (now_ns - look_ns > kStallNs) deadline_ns += now_ns - look_ns;
    look_ns = now_ns;
    if (now_ns >= deadline_ns) break;
    if (!shares_cpu && waited_ns < kYieldNs) {
      calls_.Yield();
      continue;
    }
    const bool first = !armed;
    if (!is_long && waited_ns >= kShortWaitNs) {
      is_long = true;
      if (on_wait) on_wait();
    } else if (!first) {
      continue;  // the alarm repeats
    }
    constexpr uint64_t kStopLookNs = 20'000'000;
    if (calls_.ArmAlarm(is_long ? std::min(deadline_ns - now_ns, kStopLookNs)
                                : kShortWaitNs)) {
      armed = true;
    } else {
      Nap(calls_, waited_ns);
    }
  }
  if (armed) calls_.DisarmAlarm();
  if (seen == Stop::kGone) return Gone("waitid", error);
  if (seen == Stop::kNotYet) return NoStop(calls_.NowNs() - begin_ns);
  return StepOk();
}

StepResult Tracee::RunToSystemCall(uint64_t deadline_ns, bool shares_cpu,
                                   SystemCallStop* stop) {
  // With this option the kernel forgets the stop if this process ends. Without it, the
  // thread would get a SIGTRAP then.
  RETURN_IF_FAILED(Checked("PTRACE_SETOPTIONS", calls_.DistinguishSystemCalls(tid_),
                           AttachReason::kInternal));
  const uint64_t begin_ns = calls_.NowNs();
  do {
    RETURN_IF_FAILED(Checked("PTRACE_SYSCALL",
                             calls_.ContinueToSystemCall(tid_, pending_signal_),
                             AttachReason::kInternal));
    pending_signal_ = 0;
    Become(State::kSeized);
    (void)FaultAt("run-to-call");
    RETURN_IF_FAILED(WaitForStop(deadline_ns, shares_cpu));
    if (last_stop_->kind() == WaitStatus::Kind::kSystemCallStop) {
      return Checked("PTRACE_GET_SYSCALL_INFO", calls_.GetSystemCall(tid_, stop),
                     AttachReason::kInternal);
    }
    // A signal, or the stop that was requested, if a signal came before it. But a stop
    // of the whole process must last.
  } while (last_stop_->kind() != WaitStatus::Kind::kGroupStop &&
           calls_.NowNs() < deadline_ns);
  return AttachFailure{
      AttachReason::kStopTimeout, 0,
      absl::StrCat("thread ", tid_, " was ", last_stop_->ToString(), " after ",
                   (calls_.NowNs() - begin_ns) / 1'000'000, " ms"),
      true};
}

StepResult Tracee::ReadRegisters(user_regs_struct* registers) {
  size_t bytes = 0;
  RETURN_IF_FAILED(Checked("PTRACE_GETREGSET",
                           calls_.GetRegisters(tid_, registers, &bytes),
                           AttachReason::kRegisters));
  // 0x33 is the kernel's code segment for 64-bit user code; a 32-bit thread also has a
  // smaller register set.
  if (bytes != sizeof(*registers) || registers->cs != 0x33) {
    return AttachFailure{
        AttachReason::kUnsupported, 0,
        absl::StrFormat("thread %d runs 32-bit code (cs %#x)", tid_, registers->cs)};
  }
  return StepOk();
}

StepResult Tracee::CheckNotDispatched() {
  bool dispatched = false;
  const int error = calls_.GetDispatch(tid_, &dispatched);
  if (error == ESRCH) return Gone("PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG", error);
  if (error != 0 || !dispatched) return StepOk();
  return AttachFailure{
      AttachReason::kSystemCallDispatch, 0,
      absl::StrCat("thread ", tid_,
                   " has its system calls sent to it as signals (prctl, "
                   "PR_SET_SYSCALL_USER_DISPATCH)")};
}

StepResult Tracee::SetInstructionPointer(RemoteAddress address) {
  return Checked(
      "PTRACE_POKEUSER",
      calls_.PokeUser(tid_, offsetof(user_regs_struct, rip), address.value()),
      AttachReason::kRegisters);
}

StepResult Tracee::SetRegisters(const user_regs_struct& registers) {
  return Checked("PTRACE_SETREGSET", calls_.SetRegisters(tid_, registers),
                 AttachReason::kRegisters);
}

StepResult Tracee::Poke(RemoteAddress address, absl::string_view bytes) {
  for (size_t done = 0; done < bytes.size(); done += sizeof(uint64_t)) {
    const size_t part = std::min(sizeof(uint64_t), bytes.size() - done);
    const uint64_t at = (address + done).value();
    uint64_t word = 0;
    if (part < sizeof(word)) {
      RETURN_IF_FAILED(Checked("PTRACE_PEEKDATA", calls_.PeekData(tid_, at, &word),
                               AttachReason::kMemoryAccess));
    }
    std::memcpy(&word, bytes.data() + done, part);
    RETURN_IF_FAILED(Checked("PTRACE_POKEDATA", calls_.PokeData(tid_, at, word),
                             AttachReason::kMemoryAccess));
  }
  return StepOk();
}

void Tracee::Release() {
  // After a timeout this checks once more; otherwise the stop is imminent.
  constexpr uint64_t kGraceNs = 50'000'000;
  if (TryRelease(kGraceNs)) return;
  tracer_must_exit_ = true;
  Become(State::kNone);
}

bool Tracee::TryRelease(uint64_t patience_ns) {
  if (state_ == State::kNone || state_ == State::kGone) return true;
  if (state_ == State::kSeized) {
    // Detaching needs a stop, which has not been requested yet.
    if (!Interrupt().ok()) return state_ == State::kGone;
  }
  if (state_ == State::kInterrupted) {
    if (!WaitForStop(calls_.NowNs() + patience_ns).ok()) return state_ == State::kGone;
  }
  Detach();
  return true;
}

void Tracee::Detach() {
  // 1. The signal of a signal-delivery stop is delivered now, as without a tracer.
  // 2. A stop of the whole process is resumed by the kernel after the detach.
  // 3. Any other pending stop is cancelled by it.
  const uint64_t now_ns = calls_.NowNs();
  const int error = FaultAt("detach") ? EIO : calls_.Detach(tid_, pending_signal_);
  if (error == ESRCH) {
    Become(State::kGone);
    Reap();
    return;
  }
  if (error == 0) released_ns_ = now_ns;
  tracer_must_exit_ |= error != 0;
  Become(State::kNone);
}

void Tracee::Reap() {
  // 1. The kernel keeps a dead tracee until its tracer has waited for it; its parent is
  //    notified only after that.
  // 2. If this process is the parent, the exit status of the whole target is not for
  //    the injector to collect; that of one of its other threads is.
  // 3. If the thread does not exit in time, the end of this thread releases it.
  const uint64_t begin_ns = calls_.NowNs();
  for (;;) {
    std::optional<WaitStatus> seen;
    if (calls_.Peek(tid_, /*block=*/false, &seen) != 0)
      return;  // not a tracee any more
    if (seen.has_value() && !seen->is_stop()) {
      auto status = calls_.ReadStatus(pid_, tid_);
      if (tid_ == pid_ && status.ok() && status->parent == calls_.Self()) return;
      calls_.Collect(tid_);
      return;
    }
    const uint64_t now_ns = calls_.NowNs();
    if (now_ns - begin_ns >= kReapNs) {
      tracer_must_exit_ = true;
      return;
    }
    Pause(calls_, now_ns - begin_ns);
  }
}

}  // namespace rocattach
