#include "injector/call_entry.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "injector/attach_run.h"
#include "injector/failure.h"
#include "injector/fault.h"
#include "injector/tracing/tracee.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

// Interval of checking for a call.
constexpr long kLookNs = 100'000;

// Time limit for the thread's next call: on a busy machine the thread gets a processor
// only after this many milliseconds.
constexpr uint64_t kCallPatienceNs = 100'000'000;

// Interval of checking whether the service has to release its tracees.
constexpr uint64_t kSliceNs = 10'000'000;

// A stop that has been requested comes within microseconds, unless the thread gets no
// processor.
constexpr uint64_t kEntryPatienceNs = 50'000'000;

// Maximum number of calls that may be refused, because they come from a signal handler
// or while the loader is busy, before another way in is tried.
constexpr int kMostRefused = 4;

AttachFailure NoCall(std::string detail) {
  return {AttachReason::kNoSafePoint, 0, std::move(detail), true};
}

// Both are best effort: without them the wake-up takes longer.
void SetPriority(int policy, int priority) {
  sched_param param = {};
  param.sched_priority = priority;
  (void)pthread_setschedparam(pthread_self(), policy, &param);
}
void MoveTo(int cpu) {
  if (cpu < 0 || cpu >= CPU_SETSIZE) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  (void)sched_setaffinity(0, sizeof(set), &set);
}

// Warms up the wait. Stops that the probe did not request are over when this returns.
void WarmUp(Tracee* tracee) {
  constexpr uint64_t kShortNs = 20'000;
  if (tracee->Await(BootNs() + kShortNs) == Tracee::Seen::kHeld) {
    tracee->Resume(/*deliver=*/true);
  }
}

// Waits for the stop that the probe has requested or will request.
StepResult AwaitStop(ProbedCall* call, Tracee* tracee) {
  uint64_t deadline_ns = BootNs() + kCallPatienceNs;
  bool disarmed = false;
  for (;;) {
    switch (tracee->Await(std::min(deadline_ns, BootNs() + kSliceNs))) {
      case Tracee::Seen::kGone:
        return AttachFailure{AttachReason::kTargetExited, 0,
                             "the thread that made the call has exited"};
      case Tracee::Seen::kRunning:
        if (BootNs() < deadline_ns && !Tracee::MustLetGo()) continue;
        if (disarmed || call->Disarm()) {
          return NoCall("the thread that made a call made no other one");
        }
        disarmed = true;  // it is stopping
        deadline_ns = BootNs() + kEntryPatienceNs;
        continue;
      case Tracee::Seen::kHeld:
        if (call->IsStopping()) return StepOk();
        tracee->Resume(/*deliver=*/true);  // not from the probe
    }
  }
}

// From arming the probe to redirecting the thread. After a failure the thread runs on.
StepResult EnterAtStop(ProbedCall* call, Tracee* tracee, AttachRun* run) {
  for (int refused = 0;;) {
    call->Arm();
    // Not before it is armed: nothing would stop the thread at an earlier call.
    if (refused > 0) tracee->Resume(/*deliver=*/false);
    (void)FaultAt("armed");
    RETURN_IF_FAILED(AwaitStop(call, tracee));
    (void)FaultAt("stopped");
    StepResult result = run->Enter();
    if (result.ok()) return result;
    if (!result.failure().retryable || ++refused >= kMostRefused) {
      tracee->Resume(/*deliver=*/false);
      return result;
    }
  }
}

}  // namespace

std::optional<SeenCall> WaitForCall(ProbedCall* call, uint64_t deadline_ns) {
  for (;;) {
    std::optional<SeenCall> seen = call->Seen();
    if (seen.has_value() || !call->IsAwaited() || BootNs() >= deadline_ns ||
        Tracee::MustLetGo()) {
      return seen;
    }
    const timespec nap = {0, kLookNs};
    nanosleep(&nap, nullptr);
  }
}

AttachOutcome AttachAtCall(AttachRequest request, const SeenCall& seen,
                           LibraryCache* cache, ProbedCall* call) {
  request.point.tid = seen.tid;
  request.point.window_ip = seen.ip;
  // First, so that everything is in that processor's caches.
  MoveTo(seen.cpu);
  Tracee tracee;
  AttachRun run(request, cache, &tracee, nullptr);
  (void)FaultAt("look");
  StepResult result = run.WriteAhead(seen.stack_pointer);
  if (result.ok()) {
    SetPriority(SCHED_FIFO | SCHED_RESET_ON_FORK, 1);
    result = run.SeizeAhead();
    (void)FaultAt("seized");
  }
  if (result.ok()) {
    WarmUp(&tracee);
    run.WarmUpEntry();
    result = EnterAtStop(call, &tracee, &run);
  }
  if (!result.ok()) {
    (void)call->Disarm();
    tracee.ReleaseByEnd();
  }
  AttachOutcome outcome = run.Finish(std::move(result));
  // The released thread may want this processor.
  SetPriority(SCHED_OTHER, 0);
  return outcome;
}

}  // namespace rocattach
