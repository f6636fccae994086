// Counters of whole GPUs, read at an interval.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_SAMPLES_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_SAMPLES_H_

#include <stdint.h>

#include "userspace/collector/common/plan_set.h"
#include "userspace/collector/common/ring.h"
#include "userspace/collector/sdk/configs.h"
#include "userspace/collector/sdk/values.h"

namespace rocattach::collector {

// Device counting. Only the worker samples. The SDK's values are sums since the context
// was started, so each instance's last one is kept and subtracted; if a plan has
// several passes, they alternate with each sample, and the context is restarted.
class SdkSamples {
 public:
  struct Parts {
    const rocattach_sdk_functions* sdk;
    SdkAgents* agents;
    SdkConfigs* configs;
    PlanSet* plans;
    RingSet* rings;
  };
  void Init(const Parts& parts) { parts_ = parts; }

  // Creates a context and the service for each GPU. True if there is any.
  bool Configure();

  // Starts the plan's samples. An error leaves nothing running.
  PlanResult Start(const PlanState* state, const SdkPassTable* table);
  // Ends sampling; what was counted since the last sample is discarded.
  void Stop();
  // Takes the last sample, which covers the time since the one before, and stops. On
  // the worker.
  void Finish(RingHandle* ring);
  bool running() const { return state_ != nullptr; }

  // Takes the samples that are due; returns when the next ones are (CLOCK_BOOTTIME ns),
  // or 0.
  uint64_t Tick(uint64_t now_ns, RingHandle* ring);

 private:
  struct Gpu {
    SdkSamples* self;
    rocattach_sdk_context_id context;
    uint32_t agent;
    bool started;
    uint32_t pass;    // index among the agent's passes
    uint64_t config;  // handle
    rocattach_sdk_status set_status;
    uint64_t begin_ns;
    uint32_t known;  // number of values kept from the last sample
    double* last;
  };

  static void OnStart(rocattach_sdk_context_id context, rocattach_sdk_agent_id agent,
                      rocattach_sdk_set_config_fn set_config, void* gpu);
  rocattach_sdk_status StartGpu(Gpu* gpu);
  void StopGpu(Gpu* gpu);
  uint64_t Interval() const;
  void Begin();
  void SampleAll(RingHandle* ring);
  void Sample(Gpu* gpu, RingHandle* ring);
  void Publish(Gpu* gpu, const SdkConfig& config, const rocattach_plan_pass& pass,
               size_t count, uint64_t end_ns, RingHandle* ring);
  bool Grow(size_t records);

  Parts parts_ = {};
  Gpu gpus_[SdkAgents::kMax] = {};
  uint32_t gpu_count_ = 0;
  const PlanState* state_ = nullptr;
  const SdkPassTable* table_ = nullptr;
  uint64_t begin_ns_ = 0;
  bool delayed_ = false;  // begin_ns_ is still in the future
  uint64_t next_ns_ = 0;
  uint64_t end_ns_ = 0;
  uint64_t next_sample_id_ = 1;
  rocattach_sdk_counter_record* records_ = nullptr;
  size_t room_ = 0;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_SAMPLES_H_
