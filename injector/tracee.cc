#include "injector/tracee.h"

#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bpf/watch_events.h"
#include "injector/fault.h"
#include "injector/thread_status.h"
#include "injector/wait_alarm.h"
#include "userspace/base/clock.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

// How long a tracee that has died is waited for; a process that is killed needs until
// its last thread has left the kernel.
constexpr uint64_t kReapNs = 1'000'000'000;

// One of the process's own until a watchdog shares another one.
TraceGate own_gate;
std::atomic<TraceGate*> current_gate = &own_gate;

TraceGate& Gate() {
  return *current_gate.load(std::memory_order_acquire);
}

// Tracees that only the end of the calling thread sets free.
struct LeftToTheEnd {
  uint32_t count = 0;
  ~LeftToTheEnd() { Gate().tracees -= count; }
};
thread_local LeftToTheEnd left_to_the_end;

static_assert(ROCATTACH_STOP_SIGNAL == SIGURG, "as bpf/watch_events.h says");

uint64_t* Word(uint64_t value) {
  return reinterpret_cast<uint64_t*>(value);
}

// What waitid says about one traced thread, without consuming it: a stop needs no
// consuming, and an exit may be another part of this process's to collect.
// 0: nothing yet; 1: `info` is filled; -1: errno.
// With `block` it waits until there is something, or a signal comes.
int Peek(pid_t tid, siginfo_t* info, bool block = false) {
  std::memset(info, 0, sizeof(*info));
  const int wait = block ? 0 : WNOHANG;
  int rc;
  do {
    rc = waitid(P_PID, static_cast<id_t>(tid), info,
                WEXITED | WSTOPPED | WNOWAIT | __WALL | wait);
  } while (rc != 0 && errno == EINTR && !block);
  if (rc != 0) return errno == EINTR ? 0 : -1;
  return info->si_pid == 0 ? 0 : 1;
}

// The stop usually stands already when it is asked for, or comes within microseconds on
// another processor: so long it is looked for again and again.
constexpr uint64_t kYieldNs = 30'000;

// After that a wait counts as long.
constexpr uint64_t kShortWaitNs = 100'000;

// A wait is interrupted more often than this. Where it took longer from one look to the
// next, the machine stood still (a virtual machine that is paused), and the thread that
// is waited for had none of that time either.
constexpr uint64_t kStallNs = 60'000'000;

// The longer it takes, the longer the sleeps: many of these threads may be waiting at
// once, and together they must leave the processors to those that they wait for.
void Nap(uint64_t waited_ns) {
  constexpr uint64_t kShortestNs = 15'000, kLongestNs = 2'000'000;
  timespec nap = {
      0, static_cast<long>(std::clamp(waited_ns / 4, kShortestNs, kLongestNs))};
  nanosleep(&nap, nullptr);
}

void Pause(uint64_t waited_ns) {
  if (waited_ns < kYieldNs) {
    sched_yield();
  } else {
    Nap(waited_ns);
  }
}

// Why PTRACE_SEIZE said EPERM: a tracer, a dead thread, or a policy.
AttachFailure WhyNotPermitted(pid_t pid, pid_t tid) {
  auto status = ReadThreadStatus(pid, tid);
  if (!status.ok() && IsOwnShortage(ErrnoOf(status.status()))) {
    return FailedLookAtProc(status.status());
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
  std::string hint;
  if (auto yama = ReadFile("/proc/sys/kernel/yama/ptrace_scope", 64); yama.ok()) {
    hint = absl::StrCat("; kernel.yama.ptrace_scope is ", yama->substr(0, 1));
  }
  if (auto label = ReadFile(absl::StrCat("/proc/", pid, "/attr/current"), 4096);
      label.ok() && !label->empty()) {
    absl::StrAppend(&hint, "; security label ", label->substr(0, label->find('\n')));
  }
  return {AttachReason::kNotPermitted, EPERM,
          absl::StrCat("PTRACE_SEIZE(", tid,
                       ") is not permitted: CAP_SYS_PTRACE is "
                       "needed, and no security module may forbid it",
                       hint)};
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

AttachFailure Tracee::Gone(absl::string_view call) {
  int error = errno;
  Become(State::kGone);
  Reap();
  return {AttachReason::kTargetExited, error,
          absl::StrCat(call, "(", tid_, "): the thread has exited")};
}

StepResult Tracee::Failed(absl::string_view call, AttachReason reason) {
  int error = errno;
  // ESRCH: a tracee that is dying is not stopped any more.
  if (error == ESRCH) return Gone(call);
  return AttachFailure{reason, error,
                       absl::StrCat(call, "(", tid_, "): ", strerrorname_np(error))};
}

StepResult Tracee::Seize(pid_t pid, pid_t tid) {
  pid_ = pid;
  tid_ = tid;
  // Counted first: a watchdog that sees no tracee must be right.
  ++Gate().tracees;
  if (MustLetGo()) {
    --Gate().tracees;
    return AttachFailure{AttachReason::kStopTimeout, 0,
                         "the watcher is being stopped (SIGSTOP or ^Z), and traces "
                         "nobody meanwhile",
                         true};
  }
  if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) == 0) {
    Become(State::kSeized);
    return std::nullopt;
  }
  const int error = errno;
  --Gate().tracees;
  errno = error;
  if (errno == EPERM || errno == EACCES) return WhyNotPermitted(pid, tid);
  return AttachFailure{
      ReasonForErrno(errno, AttachReason::kNotPermitted), errno,
      absl::StrCat("PTRACE_SEIZE(", tid, "): ", strerrorname_np(errno))};
}

Tracee::Seen Tracee::Keep() {
  siginfo_t info;
  const int seen = Peek(tid_, &info);
  if (seen == 0) return Seen::kRunning;
  if (seen < 0) {
    Become(State::kNone);
    return Seen::kGone;
  }
  if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) {
    Become(State::kGone);
    Reap();
    return Seen::kGone;
  }
  const int event = info.si_status >> 8;
  const int signal = info.si_status & 0x7f;
  if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {
    // The whole process has been stopped: it stays so until its SIGCONT.
    (void)ptrace(PTRACE_LISTEN, tid_, nullptr, nullptr);
    return Seen::kRunning;
  }
  siginfo_t why = {};
  if (event == 0 && signal == ROCATTACH_STOP_SIGNAL &&
      ptrace(PTRACE_GETSIGINFO, tid_, nullptr, &why) == 0 && why.si_code == SI_KERNEL) {
    pending_signal_ = 0;
    Become(State::kStopped);
    return Seen::kHeld;
  }
  (void)ptrace(PTRACE_CONT, tid_, nullptr,
               Word(event == 0 ? static_cast<uint64_t>(signal) : 0));
  return Seen::kRunning;
}

void Tracee::Resume(bool deliver) {
  if (state_ != State::kStopped) return;
  if (ptrace(PTRACE_CONT, tid_, nullptr, Word(deliver ? ROCATTACH_STOP_SIGNAL : 0)) ==
      0) {
    Become(State::kSeized);
  } else {
    (void)Gone("PTRACE_CONT");
  }
}

StepResult Tracee::Interrupt() {
  if (ptrace(PTRACE_INTERRUPT, tid_, nullptr, nullptr) != 0) {
    return Failed("PTRACE_INTERRUPT", AttachReason::kInternal);
  }
  Become(State::kInterrupted);
  return std::nullopt;
}

Tracee::Stop Tracee::LookForStop(bool block) {
  siginfo_t info;
  const int seen = Peek(tid_, &info, block);
  if (seen < 0) return Stop::kGone;
  if (seen == 0) return Stop::kNotYet;
  if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) {
    errno = 0;
    return Stop::kGone;
  }
  // Bits 8 and up name a ptrace event; without them the stop is a signal on its way to
  // the thread, which gets it when it is let go.
  const int event = info.si_status >> 8;
  pending_signal_ = event == 0 ? info.si_status & 0x7f : 0;
  Become(State::kStopped);
  return Stop::kStopped;
}

AttachFailure Tracee::NoStop(uint64_t waited_ns) const {
  return {AttachReason::kStopTimeout, 0,
          absl::StrCat("thread ", tid_, " did not stop within ", waited_ns / 1'000'000,
                       " ms: it is frozen, or asleep where it cannot be interrupted"),
          true};
}

// 1. Looks again and again for a moment, unless that keeps the thread from stopping.
// 2. Blocks, until the stop or until the wait counts as long.
// 3. Says that it is long, and blocks until the stop or the deadline.
StepResult Tracee::WaitForStop(uint64_t deadline_ns, bool shares_cpu,
                               const std::function<void()>& on_wait) {
  const uint64_t begin_ns = BootNs();
  WaitAlarm* alarm = nullptr;  // armed
  bool is_long = false;
  uint64_t look_ns = begin_ns;
  Stop seen;
  while ((seen = LookForStop(alarm != nullptr)) == Stop::kNotYet) {
    const uint64_t now_ns = BootNs();
    const uint64_t waited_ns = now_ns - begin_ns;
    if (now_ns - look_ns > kStallNs) deadline_ns += now_ns - look_ns;
    look_ns = now_ns;
    if (now_ns >= deadline_ns) break;
    if (!shares_cpu && waited_ns < kYieldNs) {
      sched_yield();
      continue;
    }
    const bool first = alarm == nullptr;
    if (!is_long && waited_ns >= kShortWaitNs) {
      is_long = true;
      if (on_wait) on_wait();
    } else if (!first) {
      continue;  // the alarm comes again
    }
    WaitAlarm& own = WaitAlarm::OfThisThread();
    constexpr uint64_t kLookNs = 20'000'000;
    if (own.Arm(is_long ? std::min(deadline_ns - now_ns, kLookNs) : kShortWaitNs)) {
      alarm = &own;
    } else {
      Nap(waited_ns);
    }
  }
  if (alarm != nullptr) alarm->Disarm();
  if (seen == Stop::kGone) return Gone("waitid");
  if (seen == Stop::kNotYet) return NoStop(BootNs() - begin_ns);
  return std::nullopt;
}

StepResult Tracee::ReadRegisters(user_regs_struct* registers) {
  iovec vector = {registers, sizeof(*registers)};
  if (ptrace(PTRACE_GETREGSET, tid_, NT_PRSTATUS, &vector) != 0) {
    return Failed("PTRACE_GETREGSET", AttachReason::kRegisters);
  }
  // 0x33 is the kernel's code segment for 64-bit user code; a 32-bit thread also has a
  // smaller register set.
  if (vector.iov_len != sizeof(*registers) || registers->cs != 0x33) {
    return AttachFailure{
        AttachReason::kUnsupported, 0,
        absl::StrFormat("thread %d runs 32-bit code (cs %#x)", tid_, registers->cs)};
  }
  return std::nullopt;
}

StepResult Tracee::SetInstructionPointer(RemoteAddress address) {
  if (ptrace(PTRACE_POKEUSER, tid_, offsetof(user_regs_struct, rip),
             Word(address.value())) != 0) {
    return Failed("PTRACE_POKEUSER", AttachReason::kRegisters);
  }
  return std::nullopt;
}

StepResult Tracee::Poke(RemoteAddress address, absl::string_view bytes) {
  for (size_t done = 0; done < bytes.size(); done += sizeof(uint64_t)) {
    const size_t part = std::min(sizeof(uint64_t), bytes.size() - done);
    uint64_t word = 0;
    if (part < sizeof(word)) {
      errno = 0;
      word = static_cast<uint64_t>(
          ptrace(PTRACE_PEEKDATA, tid_, Word((address + done).value()), nullptr));
      if (errno != 0) return Failed("PTRACE_PEEKDATA", AttachReason::kMemoryAccess);
    }
    std::memcpy(&word, bytes.data() + done, part);
    if (ptrace(PTRACE_POKEDATA, tid_, Word((address + done).value()), Word(word)) !=
        0) {
      return Failed("PTRACE_POKEDATA", AttachReason::kMemoryAccess);
    }
  }
  return std::nullopt;
}

void Tracee::Release() {
  // After a timeout this looks once more; otherwise the stop is on its way.
  constexpr uint64_t kGraceNs = 50'000'000;
  if (TryRelease(kGraceNs)) return;
  tracer_must_exit_ = true;
  Become(State::kNone);
}

bool Tracee::TryRelease(uint64_t patience_ns) {
  if (state_ == State::kNone || state_ == State::kGone) return true;
  if (state_ == State::kSeized) {
    // Detaching needs a stop. Nobody has asked for one yet.
    if (Interrupt()) return state_ == State::kGone;
  }
  if (state_ == State::kInterrupted) {
    if (WaitForStop(BootNs() + patience_ns)) return state_ == State::kGone;
  }
  Detach();
  return true;
}

void Tracee::Detach() {
  // 1. The signal of a signal-delivery stop is delivered now, as if nobody had looked.
  // 2. A stop of the whole process is resumed by the kernel after the detach.
  // 3. Any other pending stop is cancelled by it.
  errno = 0;
  const uint64_t now_ns = BootNs();
  const bool failed =
      FaultAt("detach") || ptrace(PTRACE_DETACH, tid_, nullptr,
                                  Word(static_cast<uint64_t>(pending_signal_))) != 0;
  if (failed && errno == ESRCH) {
    Become(State::kGone);
    Reap();
    return;
  }
  if (!failed) released_ns_ = now_ns;
  tracer_must_exit_ |= failed;
  Become(State::kNone);
}

void Tracee::Reap() {
  // 1. A tracee that died is kept by the kernel until its tracer has waited for it; its
  //    parent hears of the death only after that.
  // 2. If this process is the parent, the exit status of the whole target is not the
  //    injector's to collect; that of a further thread of it is.
  // 3. If the thread does not come to an end in time, the end of this thread does it.
  const uint64_t deadline_ns = BootNs() + kReapNs;
  for (uint64_t begin_ns = BootNs();;) {
    siginfo_t info;
    int seen = Peek(tid_, &info);
    if (seen < 0) return;  // ECHILD: not a tracee any more
    if (seen > 0 && info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) {
      auto status = ReadThreadStatus(pid_, tid_);
      if (tid_ == pid_ && status.ok() && status->parent == getpid()) return;
      waitid(P_PID, static_cast<id_t>(tid_), &info, WEXITED | WNOHANG | __WALL);
      return;
    }
    const uint64_t now_ns = BootNs();
    if (now_ns >= deadline_ns) {
      tracer_must_exit_ = true;
      return;
    }
    Pause(now_ns - begin_ns);
  }
}

}  // namespace rocattach
