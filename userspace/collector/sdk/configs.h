// Counter configs of rocprofiler-sdk: created once for each GPU and set of counters.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_CONFIGS_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_CONFIGS_H_

#include <stdint.h>

#include "userspace/collector/common/plan_set.h"
#include "userspace/collector/sdk/agents.h"
#include "userspace/collector/sdk/dimensions.h"
#include "userspace/collector/sdk/instance_order.h"

namespace rocattach::collector {

// A config and its counters, in the order of the plan's pass.
struct SdkConfig {
  uint64_t handle;  // 0: unused
  uint32_t agent;   // index in SdkAgents
  uint32_t count;
  uint64_t used;  // generation of the last plan that used it
  uint64_t counters[PlanSet::kMaxPassCounters];
};

// The configs of one plan: for each agent its passes, each a slot in the cache.
struct SdkPassTable {
  static constexpr uint32_t kNoConfig = UINT32_MAX;

  uint64_t generation;
  uint16_t dispatch_passes[SdkAgents::kMax];
  uint16_t sampler_passes[SdkAgents::kMax];
  uint16_t dispatch_first[SdkAgents::kMax];  // in rocattach_plan.pass
  uint16_t sampler_first[SdkAgents::kMax];
  // Indexed by agent and by index in rocattach_plan.pass.
  uint32_t config[SdkAgents::kMax][ROCATTACH_PLAN_MAX_PASSES];
};

// Changed by one thread at a time; read without a lock by threads that hold a table of
// an active plan: the configs that such a plan uses are kept.
class SdkConfigs {
 public:
  // Configs of plans that dispatches hold in `plans` are kept.
  void Init(const rocattach_sdk_functions* sdk, SdkAgents* agents,
            const PlanSet* plans) {
    sdk_ = sdk;
    agents_ = agents;
    plans_ = plans;
  }

  // Creates the configs that the plan needs on the GPUs of the process. nullptr with
  // `result` filled in if the plan cannot be counted; configs created for it are kept
  // for a later one. `selection`: the one of counters, in the shared memory; GPUs that
  // the user named in it must not be left out. nullptr: none were named.
  const SdkPassTable* Build(const PlanState& state, PlanResult* result,
                            const rocattach_plan_selection* selection = nullptr);

  // The dimensions of all counters in plans that record instances.
  const SdkDimensions& dimensions() const { return dimensions_; }
  const SdkConfig& at(uint32_t index) const { return configs_[index]; }
  InstanceOrder* order(uint32_t index) const { return &orders_[index]; }
  // 0 for a slot that does not exist.
  uint64_t HandleOf(uint32_t index) const {
    return index < kMaxConfigs ? LoadAcquire(&configs_[index].handle) : 0;
  }

 private:
  static constexpr uint32_t kMaxConfigs = 2048;
  static constexpr uint32_t kTables = 4;

  // The counter at `place` of a pass; handle 0 with `result` filled in if the GPU has
  // none.
  rocattach_sdk_counter_id CounterOf(const PlanState& state, uint32_t agent,
                                     const rocattach_plan_pass& pass, uint32_t place,
                                     PlanResult* result);
  bool BuildPass(const PlanState& state, uint32_t agent, uint32_t pass,
                 SdkPassTable* table, PlanResult* result);
  bool Unmeasurable(const PlanState& state, uint32_t agent);
  bool BuildAgent(const PlanState& state, uint32_t agent, SdkPassTable* table,
                  PlanResult* result);
  uint32_t Find(uint32_t agent, const uint64_t* counters, uint32_t count) const;
  uint32_t FreePlace(uint64_t generation);
  bool Destroy(uint32_t place);
  PlanResult Refusal(const PlanState& state, uint32_t agent,
                     const rocattach_plan_pass& pass,
                     rocattach_sdk_status status) const;

  const rocattach_sdk_functions* sdk_ = nullptr;
  SdkAgents* agents_ = nullptr;
  const PlanSet* plans_ = nullptr;
  SdkDimensions dimensions_;
  SdkConfig* configs_ = nullptr;
  // The configs' orders, stored separately: configs are searched, and only the orders
  // of configs that count take memory.
  InstanceOrder* orders_ = nullptr;
  uint32_t used_ = 0;  // slots that were ever filled
  SdkPassTable* tables_ = nullptr;
  uint32_t next_table_ = 0;
};

// The plan error for a status of the SDK.
rocattach_plan_error PlanErrorOf(rocattach_sdk_status status);
// The SDK's name of a status, or nullptr.
const char* StatusName(const rocattach_sdk_functions& sdk, rocattach_sdk_status status);

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_CONFIGS_H_
