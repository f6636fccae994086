#include "userspace/collector/common/plan_set.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

namespace rocattach::collector {
namespace {

bool Terminated(const char* text, size_t room) {
  return strnlen(text, room) < room;
}

const char* CheckPasses(const rocattach_plan& plan) {
  for (uint32_t i = 0; i < plan.passes; ++i) {
    const rocattach_plan_pass& pass = plan.pass[i];
    if (uint32_t{pass.first_counter} + pass.counters > plan.pass_counters_used) {
      return "a pass reaches past the counters";
    }
    if (pass.counters == 0 || pass.counters > PlanSet::kMaxPassCounters) {
      return "a pass has no counter or more than 128";
    }
  }
  for (uint32_t i = 0; i < plan.pass_counters_used; ++i) {
    if (plan.pass_counters[i] >= plan.counters) return "a pass has an unknown counter";
  }
  return nullptr;
}

uint64_t TagBits(uint64_t generation) {
  return uint64_t{ROCATTACH_PLAN_TAG(generation)} << 9;
}

}  // namespace

PlanResult PlanResult::Error(rocattach_plan_error error, int32_t code,
                             const char* format, ...) {
  PlanResult result;
  result.error = error;
  result.code = code;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(result.text, sizeof(result.text), format, arguments);
  va_end(arguments);
  return result;
}

const char* CheckPlan(const rocattach_plan& plan) {
  if (plan.magic != ROCATTACH_PLAN_MAGIC) return "it is not a plan";
  if (plan.version != ROCATTACH_PLAN_VERSION || plan.bytes != sizeof(plan)) {
    return "it is of another version";
  }
  if (plan.architectures > ROCATTACH_PLAN_MAX_ARCHITECTURES ||
      plan.passes > ROCATTACH_PLAN_MAX_PASSES ||
      plan.counters > ROCATTACH_PLAN_MAX_COUNTERS ||
      plan.pass_counters_used > ROCATTACH_PLAN_MAX_PASS_COUNTERS) {
    return "a table is longer than its room";
  }
  if (!Terminated(plan.late_sdk, sizeof(plan.late_sdk))) return "a name has no end";
  for (uint32_t i = 0; i < plan.architectures; ++i) {
    const rocattach_plan_architecture& a = plan.architecture[i];
    if (!Terminated(a.name, sizeof(a.name))) return "a name has no end";
    if (uint32_t{a.dispatch_first_pass} + a.dispatch_passes > plan.passes ||
        uint32_t{a.sampler_first_pass} + a.sampler_passes > plan.passes) {
      return "an architecture has an unknown pass";
    }
  }
  for (uint32_t i = 0; i < plan.counters; ++i) {
    if (!Terminated(plan.counter_name[i], ROCATTACH_PLAN_NAME_BYTES)) {
      return "a name has no end";
    }
  }
  return CheckPasses(plan);
}

const rocattach_plan_architecture* FindArchitecture(const rocattach_plan& plan,
                                                    const char* name) {
  size_t bytes = strcspn(name, ":");
  for (uint32_t i = 0; i < plan.architectures; ++i) {
    const rocattach_plan_architecture& a = plan.architecture[i];
    if (strlen(a.name) == bytes && memcmp(a.name, name, bytes) == 0) return &a;
  }
  return nullptr;
}

// Ordering against Keep():
//   1. here the generation is withdrawn, and then the holders are counted;
//   2. Keep() adds the holder, and then checks the generation.
// Both have a full fence in between, so at least one of them sees the other.
PlanState* PlanSet::ReservePlace(PlanResult* result) {
  for (PlanState*& place : places_) {
    if (place == nullptr) {
      place = static_cast<PlanState*>(AllocatePrivate(sizeof(PlanState)));
      if (place == nullptr) {
        *result = PlanResult::Error(ROCATTACH_PLAN_ERROR_NO_MEMORY, ENOMEM,
                                    "the process has no memory for a plan");
        return nullptr;
      }
    }
    const bool recent = place->order != 0 && place->order + kLaterPlans > prepared_;
    if (recent || LoadAcquire(&place->holders) != 0) continue;
    const uint64_t generation = LoadRelaxed(&place->generation);
    StoreRelaxed(&place->generation, uint64_t{0});
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (LoadRelaxed(&place->holders) == 0) {
      place->order = ++prepared_;
      return place;
    }
    StoreRelease(&place->generation, generation);
  }
  *result = PlanResult::Error(
      ROCATTACH_PLAN_ERROR_NO_MEMORY, EBUSY,
      "dispatches that have not finished are still counted by %u earlier plans",
      kPlaces - static_cast<uint32_t>(kLaterPlans));
  return nullptr;
}

bool PlanSet::Keep(const PlanState* state, uint64_t generation) {
  auto* holders = const_cast<uint32_t*>(&state->holders);
  __atomic_fetch_add(holders, 1u, __ATOMIC_SEQ_CST);
  if (StillGeneration(&state->generation, generation)) return true;
  __atomic_fetch_sub(holders, 1u, __ATOMIC_RELEASE);
  return false;
}

void PlanSet::Release(const PlanState* state) {
  __atomic_fetch_sub(const_cast<uint32_t*>(&state->holders), 1u, __ATOMIC_RELEASE);
}

uint64_t PlanSet::OldestKept() const {
  uint64_t oldest = UINT64_MAX;
  for (const PlanState* place : places_) {
    if (place == nullptr || LoadAcquire(&place->holders) == 0) continue;
    const uint64_t generation = LoadAcquire(&place->generation);
    if (generation != 0 && generation < oldest) oldest = generation;
  }
  return oldest;
}

PlanState* PlanSet::Prepare(PlanResult* result) {
  *result = PlanResult();
  if (iterations_ == nullptr) {
    auto* cells = static_cast<uint64_t*>(
        AllocatePrivate(ROCATTACH_PLAN_MAX_KERNELS * sizeof(uint64_t)));
    StoreRelease(&iterations_, cells);
  }
  const rocattach_plan* shared = memory_->plan();
  pending_ = LoadAcquire(&shared->generation);
  if (iterations_ == nullptr) {
    *result = PlanResult::Error(ROCATTACH_PLAN_ERROR_NO_MEMORY, ENOMEM,
                                "the process has no memory for a plan");
    return nullptr;
  }
  if ((pending_ & 1) != 0) return nullptr;
  PlanState* state = ReservePlace(result);
  if (state == nullptr) return nullptr;
  memcpy(&state->plan, shared, offsetof(rocattach_plan, selections));
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (LoadRelaxed(&shared->generation) != pending_) return nullptr;
  if (const char* wrong = CheckPlan(state->plan)) {
    *result = PlanResult::Error(ROCATTACH_PLAN_ERROR_MALFORMED, EINVAL,
                                "the plan cannot be read: %s", wrong);
    return nullptr;
  }
  StoreRelease(&state->generation, pending_);
  return state;
}

void PlanSet::Activate(const PlanState* state) {
  StoreRelease(&active_, state);
}

void PlanSet::Answer(uint64_t generation, const PlanResult& result) {
  rocattach_control* c = memory_->control();
  StoreRelaxed(&c->plan_error, static_cast<uint32_t>(result.error));
  StoreRelaxed(&c->plan_error_code, result.code);
  StoreRelaxed(&c->plan_error_counter, result.counter);
  memcpy(c->plan_error_text, result.text, sizeof(c->plan_error_text));
  answered_ = generation;
  StoreRelease(&c->plan_acked, generation);
}

uint64_t PlanSet::NextIteration(uint32_t kernel, uint64_t generation) {
  if (kernel == 0 || kernel >= ROCATTACH_PLAN_MAX_KERNELS) return 0;
  return rocattach_plan_next_iteration(&LoadAcquire(&iterations_)[kernel], generation);
}

Decision PlanSet::Decide(const PlanState* state, uint32_t kernel, uint32_t agent,
                         uint64_t dispatch) {
  constexpr uint32_t kWanted =
      ROCATTACH_PLAN_RECORD_DISPATCHES | ROCATTACH_PLAN_RECORD_COUNTERS;
  Decision decision;
  uint64_t generation = LoadAcquire(&state->generation);
  uint32_t kinds = state->plan.record_kinds;
  if (generation == 0 || (kinds & kWanted) == 0 || !Unchanged(state)) return decision;
  uint64_t iteration = NextIteration(kernel, generation);
  decision.iteration =
      iteration > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(iteration);
  auto select = [&](uint32_t kind, uint32_t index, uint32_t yes, uint32_t undecided) {
    if ((kinds & kind) == 0) return false;
    const rocattach_plan_selection* selection = &memory_->plan()->selections[index];
    // A kernel without an id has no iteration count: any iteration may be meant.
    rocattach_selected selected =
        iteration == 0 &&
                (LoadRelaxed(&selection->flags) & ROCATTACH_SELECT_ITERATIONS) != 0
            ? ROCATTACH_SELECTED_UNDECIDED
            : rocattach_plan_selects(selection, kernel, agent, dispatch, iteration);
    if (selected == ROCATTACH_SELECTED_NO) return false;
    uint32_t flags = selected == ROCATTACH_SELECTED_YES ? yes : yes | undecided;
    decision.flags = static_cast<uint16_t>(decision.flags | flags);
    return true;
  };
  decision.dispatch =
      select(ROCATTACH_PLAN_RECORD_DISPATCHES, ROCATTACH_PLAN_SELECTION_DISPATCHES,
             ROCATTACH_DISPATCH_SELECTED, ROCATTACH_DISPATCH_SELECTED_UNDECIDED);
  decision.counters = select(
      ROCATTACH_PLAN_RECORD_COUNTERS, ROCATTACH_PLAN_SELECTION_COUNTERS,
      ROCATTACH_DISPATCH_FOR_COUNTERS, ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED);
  // The service or the worker has changed the plan meanwhile.
  if (!Unchanged(state) || !StillGeneration(&state->generation, generation)) {
    return Decision();
  }
  decision.flags = static_cast<uint16_t>(decision.flags | TagBits(generation));
  return decision;
}

}  // namespace rocattach::collector
