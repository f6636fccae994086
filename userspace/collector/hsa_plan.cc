// Executes plans with the HSA backend: dispatches and copies, and, through an SDK that
// is loaded for this, counters of whole GPUs and calls of other libraries.
#include "userspace/collector/collector.h"

namespace rocattach::collector {
namespace {

// What an SDK is loaded for. Arguments come with calls.
constexpr uint32_t kLoadsSdk =
    ROCATTACH_PLAN_RECORD_SAMPLES | ROCATTACH_PLAN_RECORD_API;
constexpr uint32_t kOfLateSdk = kLoadsSdk | ROCATTACH_PLAN_RECORD_ARGUMENTS;

PlanResult CheckKinds(const rocattach_plan& plan) {
  uint32_t known = ROCATTACH_PLAN_RECORD_DISPATCHES | ROCATTACH_PLAN_RECORD_COPIES |
                   ROCATTACH_PLAN_RECORD_MEMORY;
  if (plan.late_sdk[0] != '\0') known |= kOfLateSdk;
  constexpr uint32_t kCounted =
      ROCATTACH_PLAN_RECORD_COUNTERS | ROCATTACH_PLAN_RECORD_SAMPLES;
  const uint32_t unknown = plan.record_kinds & ~known;
  if (unknown == 0) return PlanResult();
  return PlanResult::Error(
      ROCATTACH_PLAN_ERROR_UNSUPPORTED, 0, "the HSA tools backend cannot record %s: %s",
      (unknown & kCounted) != 0                        ? "hardware counters"
      : (unknown & ROCATTACH_PLAN_RECORD_SCRATCH) != 0 ? "scratch memory"
                                                       : "API calls",
      g_process.memory.control()->backend_text);
}

}  // namespace

void TakeHsaPlan(RingHandle* ring) {
  Process& p = g_process;
  Collector& c = g_collector;
  TinyLockHolder hold(c.plan_lock);
  if (LoadRelaxed(&p.self_stopped) != 0) {
    // The plan is unchanged when recording resumes.
    if (c.late.Pause()) p.plans.Reconsider();
    return;
  }
  if (!p.plans.Pending() || LoadAcquire(&p.phase) != kPhaseArmed ||
      c.late.Awaited(LoadAcquire(&p.memory.plan()->generation))) {
    return;
  }
  c.late.Finish(ring);
  c.hsa.recording.SetPlanKinds(0);
  p.plans.Activate(nullptr);
  PlanResult result;
  PlanState* state = p.plans.Prepare(&result);
  // It is being written again: the writer wakes us afterwards.
  if (state == nullptr && result.ok()) return;
  if (state != nullptr) result = CheckKinds(state->plan);
  const uint32_t kinds = state != nullptr ? state->plan.record_kinds : 0;
  if (result.ok() && (kinds & kLoadsSdk) != 0 && !c.late.Start(state, &result)) {
    return;
  }
  if (result.ok() && kinds != 0) {
    p.plans.Activate(state);
    c.hsa.recording.SetPlanKinds(kinds);
  }
  p.plans.Answer(p.plans.pending_generation(), result);
}

}  // namespace rocattach::collector
