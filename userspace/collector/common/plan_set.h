// The session's plan, as executed by the collector.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COMMON_PLAN_SET_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COMMON_PLAN_SET_H_

#include <stdint.h>

#include "userspace/abi/atomics.h"
#include "userspace/collector/common/memory.h"

namespace rocattach::collector {

// The result of a plan; `text` names what is wrong, `code` is a status of the SDK or an
// errno value, `counter` as rocattach_control.plan_error_counter.
struct PlanResult {
  rocattach_plan_error error = ROCATTACH_PLAN_ERROR_NONE;
  int32_t code = 0;
  uint32_t counter = 0;
  char text[sizeof(rocattach_control::plan_error_text)] = "";

  bool ok() const { return error == ROCATTACH_PLAN_ERROR_NONE; }
  // `format` is that of printf.
  static PlanResult Error(rocattach_plan_error error, int32_t code, const char* format,
                          ...) __attribute__((format(printf, 3, 4)));
};

// A plan that has been checked: a private copy with all indices in range. A slot is
// reused only after three later plans, and never while a dispatch holds it; a reader
// that is still inside by then sees the generation change and records nothing.
struct PlanState {
  uint64_t generation;              // 0: being filled in
  uint64_t order;                   // number of its preparation, from 1
  uint32_t holders;                 // see PlanSet::Keep
  alignas(64) rocattach_plan plan;  // without the selections, which are read in
                                    // place because they grow
};

// Call after reading data with a generation: true if the generation
// was unchanged throughout.
inline bool StillGeneration(const uint64_t* generation, uint64_t expected) {
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return LoadRelaxed(generation) == expected;
}

// A plan's decision for one dispatch.
struct Decision {
  uint16_t flags = 0;      // rocattach_dispatch.flags, including the plan's tag
  uint32_t iteration = 0;  // counted per kernel, from 1
  bool dispatch = false;
  bool counters = false;
};

// Reads the plan that the service writes, and decides by it. Deciding takes no lock.
class PlanSet {
 public:
  // Maximum counters of one pass; hardware has fewer.
  static constexpr uint32_t kMaxPassCounters = 128;

  void Init(Memory* memory) { memory_ = memory; }

  // True if the service has written a plan that has no answer yet.
  bool Pending() const {
    if (!memory_->valid()) return false;
    uint64_t generation = LoadAcquire(&memory_->plan()->generation);
    return generation != answered_ && (generation & 1) == 0 && generation != 0;
  }

  // Copies and checks the pending plan. Returns nullptr with `result` filled in, or
  // with an ok `result` if the service is rewriting the plan: try later. One caller at
  // a time, as for all functions below that change anything.
  PlanState* Prepare(PlanResult* result);
  // Puts `state` in force from now on; nullptr: nothing is selected.
  void Activate(const PlanState* state);
  void Answer(uint64_t generation, const PlanResult& result);
  uint64_t pending_generation() const { return pending_; }
  // Answers the pending plan without reading it.
  void Refuse(const PlanResult& result) {
    Answer(LoadAcquire(&memory_->plan()->generation), result);
  }
  // Makes the plan that was answered last pending again.
  void Reconsider() { answered_ = 0; }

  // The plan in force; nullptr while there is nothing to do.
  const PlanState* active() const { return LoadAcquire(&active_); }

  // `kernel` and `agent` are dictionary ids, `dispatch` is the number of the dispatch
  // in this process. Counts one iteration of the kernel: call once for each dispatch.
  Decision Decide(const PlanState* state, uint32_t kernel, uint32_t agent,
                  uint64_t dispatch);

  // Keeps a plan for a dispatch that it counts, until the values have arrived, however
  // many plans follow. False: the plan is gone already. Pairs with Release().
  static bool Keep(const PlanState* state, uint64_t generation);
  static void Release(const PlanState* state);
  // Generation of the oldest plan that is kept; UINT64_MAX: none.
  uint64_t OldestKept() const;

  // For backends whose runtime does not number dispatches.
  uint64_t NextDispatch() {
    return __atomic_add_fetch(&dispatches_, 1u, __ATOMIC_RELAXED);
  }

 private:
  // Slots are allocated as needed: four, or more if dispatches keep some.
  static constexpr uint32_t kPlaces = 64;
  static constexpr uint64_t kLaterPlans = 3;

  // Returns a slot for a plan, with generation 0; nullptr with `result`
  // filled in if there is none.
  PlanState* ReservePlace(PlanResult* result);
  bool Unchanged(const PlanState* state) const {
    return StillGeneration(&memory_->plan()->generation,
                           LoadRelaxed(&state->generation));
  }
  uint64_t NextIteration(uint32_t kernel, uint64_t generation);

  Memory* memory_ = nullptr;
  PlanState* places_[kPlaces] = {};
  uint64_t prepared_ = 0;  // number of plans so far
  const PlanState* active_ = nullptr;
  uint64_t answered_ = 0;
  uint64_t pending_ = 0;
  uint64_t* iterations_ = nullptr;  // cells of rocattach_plan_next_iteration
  uint64_t dispatches_ = 0;
};

// Returns nullptr, or a text that says what is wrong with the plan.
const char* CheckPlan(const rocattach_plan& plan);

// The architecture of `plan` for a GPU's name ("gfx90a:sramecc+"); nullptr if it has
// none.
const rocattach_plan_architecture* FindArchitecture(const rocattach_plan& plan,
                                                    const char* name);

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COMMON_PLAN_SET_H_
