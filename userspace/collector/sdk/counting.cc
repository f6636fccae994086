// Switches the services that must not be switched at any time: counting, and copies.
#include <stdio.h>
#include <stdlib.h>

#include "userspace/collector/sdk/backend.h"
#include "userspace/collector/sdk/ring_hold.h"

extern "C" int on_exit(void (*function)(int status, void* argument), void* argument);

namespace rocattach::collector {
namespace {

// What is in flight may be a long queue of dispatches; the GPU works on meanwhile.
// Shorter than the service waits for an answer.
constexpr uint64_t kSwitchNs = 1'500'000'000;
constexpr uint32_t kForkPatienceMsec = 2'000;  // for a switch that is going on
constexpr uint64_t kExitNs = 200'000'000;
// A stop that was not possible is tried again, without holding dispatches for long.
constexpr uint64_t kRetryNs = 5'000'000;
constexpr uint64_t kFirstBackoffNs = 50'000'000;
constexpr uint64_t kLastBackoffNs = 2'000'000'000;
// Exit handlers of the program may wait for threads that dispatch.
constexpr uint64_t kHeldAtExitNs = 2'000'000'000;

constexpr uint64_t kCopiesNs = 100'000'000;
// Without any delivery for so long after the end of the service, copies are lost.
constexpr uint64_t kCopiesLostNs = 2'000'000'000;

}  // namespace

PlanResult SdkBackend::StartCounting(RingHold* hold) {
  stop_retry_ns_ = 0;
  if (counters_service_.on) return PlanResult();
  if (!hold->Begin(kSwitchNs)) {
    return PlanResult::Error(
        ROCATTACH_PLAN_ERROR_CONFLICT, EBUSY,
        "counting was not switched on: %u dispatches had not finished after %u ms, and "
        "with some in flight rocprofiler-sdk may block the program. Nothing has "
        "changed; try again when less is queued",
        hold->unfinished(), static_cast<uint32_t>(kSwitchNs / 1'000'000));
  }
  const rocattach_sdk_status status = Switch(&counters_service_, true);
  if (counters_service_.on) return PlanResult();
  return StartError("dispatch counting", status);
}

// If dispatches do not finish, counting stays on, but nothing is counted any more, and
// the worker tries again.
void SdkBackend::StopCounting() {
  if (!counters_service_.on) return;
  int active = 1;
  if (sdk_.context_is_active != nullptr &&
      sdk_.context_is_active(counters_service_.context, &active) ==
          ROCATTACH_SDK_STATUS_SUCCESS &&
      active == 0) {
    // The SDK itself has stopped it, at a detach.
    counters_service_.on = false;
    stop_retry_ns_ = 0;
    return;
  }
  const bool again = stop_retry_ns_ != 0;
  if (again && BootNs() < stop_retry_ns_) return;
  RingHold hold(&g_ring_gate);
  if (hold.Begin(again ? kRetryNs : kSwitchNs)) {
    Switch(&counters_service_, false);
    stop_retry_ns_ = 0;
    return;
  }
  stop_backoff_ns_ = !again                              ? kFirstBackoffNs
                     : stop_backoff_ns_ < kLastBackoffNs ? 2 * stop_backoff_ns_
                                                         : kLastBackoffNs;
  stop_retry_ns_ = BootNs() + stop_backoff_ns_;
}

// After us the SDK stops what still runs. If dispatches do not finish, at least none
// must be on its way into the SDK then.
void SdkBackend::StopCountingAtExit() {
  if (!counters_service_.on) return;
  process_->plans.Activate(nullptr);
  RingHold hold(&g_ring_gate);
  if (hold.Begin(kExitNs)) {
    Switch(&counters_service_, false);
  } else {
    g_ring_gate.CloseRingsFor(kHeldAtExitNs);
    counters_service_.on = false;
  }
}

void SdkBackend::BeforeFork() {
  if (!Live() || !CanCount()) return;
  ErrnoKeeper keep_errno;
  const bool alone = lock_.LockFor(kForkPatienceMsec);
  counting_at_fork_ = counters_service_.on;
  if (!alone) return;
  forking_ = static_cast<uint32_t>(syscall(SYS_gettid));
  if (!counters_service_.on || LoadAcquire(&finalized_) != 0) return;
  RingHold hold(&g_ring_gate);
  if (!hold.Begin(kSwitchNs)) return;
  Switch(&counters_service_, false);
  counting_at_fork_ = false;
  counting_again_ = true;
  hold.Keep();
}

void SdkBackend::AfterFork() {
  if (forking_ != static_cast<uint32_t>(syscall(SYS_gettid))) return;
  ErrnoKeeper keep_errno;
  if (counting_again_) {
    counting_again_ = false;
    Switch(&counters_service_, true);
    g_ring_gate.OpenRings();
  }
  forking_ = 0;
  lock_.Unlock();
}

// If counting could not be stopped, the program's exit handlers from before the fork
// are left out in the child, and with them the SDK's, which would never return.
void SdkBackend::AfterForkInChild() {
  g_ring_gate.StartAnewInChild();
  if (!counting_at_fork_) return;
  on_exit(
      [](int status, void*) {
        fflush(nullptr);
        _exit(status);
      },
      nullptr);
}

rocattach_sdk_status SdkBackend::SwitchCopies(uint16_t flags) {
  if (!copies_.configured() || flags == copies_wanted_) {
    return ROCATTACH_SDK_STATUS_SUCCESS;
  }
  // Earlier copies keep their earlier flags; those that are under way at the end of the
  // service as well.
  copies_.Flush();
  const bool on = flags != 0;
  if (on) copies_.SetFlags(flags);
  rocattach_sdk_status status = ROCATTACH_SDK_STATUS_SUCCESS;
  if (on != copies_service_.on) {
    const bool held = g_ring_gate.HoldCopies(kCopiesNs);
    if (!held) copies_uncertain_ += g_ring_gate.copies_inside();
    status = Switch(&copies_service_, on);
    g_ring_gate.CountCopies(copies_service_.on);
    if (held) g_ring_gate.OpenCopies();
    copies_progress_ns_ = BootNs();
  }
  copies_wanted_ = copies_service_.on ? flags : uint16_t{0};
  return status;
}

bool SdkBackend::TickCopies(RingHandle* ring) {
  const uint64_t submitted = g_ring_gate.copies_submitted();
  if (!copies_service_.on && copies_.Missing(submitted, copies_uncertain_) == 0) {
    return false;
  }
  copies_.Flush();
  const uint64_t missing = copies_.Missing(submitted, copies_uncertain_);
  if (missing != 0) g_ring_gate.WakeRuntime();
  if (copies_service_.on) return true;
  const uint64_t now = BootNs();
  if (missing != copies_missing_) copies_progress_ns_ = now;
  copies_missing_ = missing;
  if (missing != 0 && now > copies_progress_ns_ + kCopiesLostNs) {
    copies_.WriteOff(missing, ring);
    return false;
  }
  return missing != 0;
}

// Nothing arrives any more after this.
void SdkBackend::SettleCopiesAtExit() {
  const uint64_t end_ns = BootNs() + kExitNs;
  for (;;) {
    copies_.Flush();
    const uint64_t missing =
        copies_.Missing(g_ring_gate.copies_submitted(), copies_uncertain_);
    if (missing == 0) return;
    if (BootNs() >= end_ns) {
      RingHandle ring = process_->rings.Mine();
      return copies_.WriteOff(missing, &ring);
    }
    timespec nap = {0, 1'000'000};
    nanosleep(&nap, nullptr);
  }
}

}  // namespace rocattach::collector
