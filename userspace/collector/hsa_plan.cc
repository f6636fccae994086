// What the HSA tools back end can do of a plan: dispatches and copies, no counters.
#include "userspace/collector/collector.h"

namespace rocattach::collector {
namespace {

PlanResult CheckKinds(const Collector& c, const rocattach_plan& plan) {
  constexpr uint32_t kKnown =
      ROCATTACH_PLAN_RECORD_DISPATCHES | ROCATTACH_PLAN_RECORD_COPIES;
  constexpr uint32_t kCounted =
      ROCATTACH_PLAN_RECORD_COUNTERS | ROCATTACH_PLAN_RECORD_SAMPLES;
  uint32_t unknown = plan.record_kinds & ~kKnown;
  if (unknown == 0) return PlanResult();
  return PlanResult::Error(
      ROCATTACH_PLAN_ERROR_UNSUPPORTED, 0,
      "the HSA tools back end cannot record %s: %s",
      (unknown & kCounted) != 0 ? "hardware counters" : "API calls",
      c.memory.control()->backend_text);
}

}  // namespace

void TakeHsaPlan(Collector* collector) {
  Collector& c = *collector;
  TinyLockHolder hold(c.plan_lock);
  if (!c.plans.Pending() || LoadAcquire(&c.phase) != kPhaseArmed) return;
  StoreRelaxed(&c.plan_kinds, 0u);
  c.plans.Activate(nullptr);
  PlanResult result;
  PlanState* state = c.plans.Prepare(&result);
  // Being written once more: whoever writes wakes us again.
  if (state == nullptr && result.ok()) return;
  if (state != nullptr) result = CheckKinds(c, state->plan);
  if (result.ok() && state->plan.record_kinds != 0) {
    c.plans.Activate(state);
    StoreRelaxed(&c.plan_kinds, state->plan.record_kinds);
  }
  c.plans.Answer(c.plans.pending_generation(), result);
}

}  // namespace rocattach::collector
