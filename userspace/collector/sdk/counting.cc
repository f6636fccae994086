#include "userspace/collector/sdk/counting.h"

#include <errno.h>

#include "userspace/collector/hsa/ring_gate.h"

namespace rocattach::collector {
namespace {

// Time limit for dispatches in flight to end: there may be many in a queue, and the GPU
// works on them. Shorter than the time that the service waits for an answer.
constexpr uint64_t kSwitchNs = 1'500'000'000;
constexpr uint64_t kExitNs = 200'000'000;
// A stop that was not possible is tried again, without holding dispatches for long.
constexpr uint64_t kRetryNs = 5'000'000;
constexpr uint64_t kFirstBackoffNs = 50'000'000;
constexpr uint64_t kLastBackoffNs = 2'000'000'000;
// Exit handlers of the program may wait for threads that dispatch.
constexpr uint64_t kHeldAtExitNs = 2'000'000'000;

}  // namespace

PlanResult SdkCounting::Start(RingHold* hold) {
  retry_ns_ = 0;
  if (service_.on) return PlanResult();
  if (!hold->Begin(kSwitchNs)) {
    if (!g_ring_gate.RingsAreReached()) {
      return PlanResult::Error(
          ROCATTACH_PLAN_ERROR_CONFLICT, EBUSY,
          "counting was not switched on: another tool has changed the runtime's API "
          "table, dispatches cannot be held, and with some in flight rocprofiler-sdk "
          "may block the program. Nothing has changed");
    }
    return PlanResult::Error(
        ROCATTACH_PLAN_ERROR_CONFLICT, EBUSY,
        "counting was not switched on: %u dispatches had not finished after %u ms, and "
        "with some in flight rocprofiler-sdk may block the program. Nothing has "
        "changed; try again when less is queued",
        hold->unfinished(), static_cast<uint32_t>(kSwitchNs / 1'000'000));
  }
  const rocattach_sdk_status status = service_.Switch(*sdk_, true);
  if (service_.on) return PlanResult();
  return SdkStartError(*sdk_, "dispatch counting", status);
}

void SdkCounting::Stop() {
  if (!service_.on) return;
  int active = 1;
  if (sdk_->context_is_active != nullptr &&
      sdk_->context_is_active(service_.context, &active) ==
          ROCATTACH_SDK_STATUS_SUCCESS &&
      active == 0) {
    // The SDK itself has stopped it, at a detach.
    service_.on = false;
    retry_ns_ = 0;
    return;
  }
  const bool again = retry_ns_ != 0;
  if (again && BootNs() < retry_ns_) return;
  RingHold hold(&g_ring_gate);
  if (hold.Begin(again ? kRetryNs : kSwitchNs)) {
    service_.Switch(*sdk_, false);
    retry_ns_ = 0;
    return;
  }
  backoff_ns_ = !again                         ? kFirstBackoffNs
                : backoff_ns_ < kLastBackoffNs ? 2 * backoff_ns_
                                               : kLastBackoffNs;
  retry_ns_ = BootNs() + backoff_ns_;
}

void SdkCounting::StopAtExit() {
  if (!service_.on) return;
  plans_->Activate(nullptr);
  RingHold hold(&g_ring_gate);
  if (hold.Begin(kExitNs)) {
    service_.Switch(*sdk_, false);
  } else {
    g_ring_gate.CloseRingsFor(kHeldAtExitNs);
    service_.on = false;
  }
}

void SdkCounting::PauseForFork() {
  if (!service_.on) return;
  RingHold hold(&g_ring_gate);
  if (!hold.Begin(kSwitchNs)) return;
  service_.Switch(*sdk_, false);
  on_at_fork_ = false;
  resumes_ = true;
  hold.Keep();
}

void SdkCounting::ResumeAfterFork() {
  if (!resumes_) return;
  resumes_ = false;
  service_.Switch(*sdk_, true);
  g_ring_gate.OpenRings();
}

}  // namespace rocattach::collector
