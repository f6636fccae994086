// The agents by rocprofiler-sdk's numbers, and the counters of each GPU.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_AGENTS_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_AGENTS_H_

#include <stdint.h>

#include "userspace/collector/common/agent_ids.h"
#include "userspace/collector/common/dictionary.h"
#include "userspace/collector/sdk/functions.h"

namespace rocattach::collector {

struct SdkAgent {
  struct Counter {
    uint64_t id;
    uint64_t hash;
    char name[ROCATTACH_PLAN_NAME_BYTES];
  };

  rocattach_sdk_agent_id id;
  uint16_t dictionary_id;
  bool gpu;
  char name[32];  // "gfx90a"
  // Read when a plan first requests counters: takes hundreds of SDK calls.
  bool counters_read;
  uint32_t counter_count;
  Counter* counters;
};

// The name of the counter that adds up `leader`; `resolution`: HIGH_RES or LOW_RES.
// False: it does not fit.
bool AccumulatorName(const char* leader, const char* resolution,
                     char (&name)[ROCATTACH_PLAN_NAME_BYTES]);

// Filled in while the tool is initialised; the counters later, by one thread at a time.
class SdkAgents {
 public:
  static constexpr uint32_t kMax = AgentIds::kMax;
  static constexpr uint32_t kMaxCounters = 2048;
  static constexpr uint32_t kNone = UINT32_MAX;

  // Agents that are already in the dictionary, according to `known`, keep their ids.
  rocattach_sdk_status Load(const rocattach_sdk_functions* sdk, Dictionary* dictionary,
                            const AgentIds* known = nullptr);

  // kNone if there is no such agent.
  uint32_t Find(rocattach_sdk_agent_id id) const {
    for (uint32_t i = 0; i < count_; ++i) {
      if (agents_[i].id.handle == id.handle) return i;
    }
    return kNone;
  }
  uint32_t count() const { return count_; }
  const SdkAgent& at(uint32_t index) const { return agents_[index]; }

  // False for a GPU that the SDK cannot measure.
  bool HasCounters(uint32_t agent);
  // The GPU's counter of that name; handle 0 if it has none.
  rocattach_sdk_counter_id FindCounter(uint32_t agent, const char* name);
  // The counter that adds up `leader` over time, as `follower` (SQ_ACCUM_PREV or
  // SQ_ACCUM_PREV_HIRES) does on the hardware: one that was defined while the tool was
  // initialised (accumulators.h), or is created on first use. The SDK sorts the
  // counters of a request, so the follower itself would follow another counter. Handle
  // 0: the SDK has none and creates none, with the reason in `status`.
  rocattach_sdk_counter_id FindAccumulator(uint32_t agent, const char* leader,
                                           const char* follower,
                                           rocattach_sdk_status* status);

 private:
  static rocattach_sdk_status Visit(int32_t version, const void** agents, size_t count,
                                    void* self);
  static rocattach_sdk_status VisitCounters(rocattach_sdk_agent_id agent,
                                            rocattach_sdk_counter_id* counters,
                                            size_t count, void* self);
  void Add(const rocattach_sdk_agent& agent);
  // Adds an agent to the dictionary.
  void Describe(const rocattach_sdk_agent& from, SdkAgent* to);
  void ReadCounters(SdkAgent* agent);
  static void AddCounter(uint64_t id, const char* name, SdkAgent* agent);

  const rocattach_sdk_functions* sdk_ = nullptr;
  Dictionary* dictionary_ = nullptr;
  const AgentIds* known_ = nullptr;
  SdkAgent agents_[kMax] = {};
  uint32_t count_ = 0;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_AGENTS_H_
