// Dispatches as rocprofiler-sdk reports them, with and without counters.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_DISPATCHES_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_DISPATCHES_H_

#include <stdint.h>

#include "userspace/collector/common/kernel_table.h"
#include "userspace/collector/common/plan_set.h"
#include "userspace/collector/common/ring.h"
#include "userspace/collector/hsa/ring_gate.h"
#include "userspace/collector/sdk/configs.h"
#include "userspace/collector/sdk/ops.h"
#include "userspace/collector/sdk/streams.h"

namespace rocattach::collector {

// Two services of the SDK see a dispatch: tracing, and counting if a plan wants it.
// Both call us when it is enqueued, in an order that is not documented, and when it has
// completed. This yields one record: from counting, with the values, if they were
// requested; otherwise from tracing.
class SdkDispatches {
 public:
  struct Parts {
    const rocattach_sdk_functions* sdk;
    PlanSet* plans;
    SdkAgents* agents;
    SdkConfigs* configs;
    Dictionary* dictionary;
    RingSet* rings;
    const KernelTable* kernels;  // by the SDK's kernel id
    uint64_t* next_correlation;
    uint64_t* own_ns;         // time spent in our callbacks, estimated from samples
    uint64_t* other_dropped;  // dispatches for which the in-flight table had no room
    RingGate* gate;           // is notified of every dispatch; may be nullptr
    const SdkStreams* streams;
    const uint32_t* sampling;  // rocattach_control.sampling
  };
  // 0 or an errno value.
  int Init(Memory* memory, const Parts& parts);

  // Set what `recording` requests, and the table of the active plan (nullptr: nothing
  // is counted). To be called once the contexts run; reset before they stop.
  void SetBaseline(bool on) { StoreRelaxed(&baseline_, on ? 1u : 0u); }
  void SetPasses(const SdkPassTable* table) { StoreRelease(&passes_, table); }

  // Callback tracing of dispatches.
  void OnTrace(const rocattach_sdk_callback_record& record,
               rocattach_sdk_user_data* user_data);
  // Counting: before a dispatch, and with its values.
  void OnEnqueue(const rocattach_sdk_dispatch_data& data,
                 rocattach_sdk_counter_config_id* config,
                 rocattach_sdk_user_data* user_data);
  void OnValues(const rocattach_sdk_dispatch_data& data,
                const rocattach_sdk_counter_record* records, size_t count,
                rocattach_sdk_user_data user_data);

  // The dictionary's number of a queue; 0: none.
  uint32_t QueueId(rocattach_sdk_queue_id queue, uint16_t agent_id);

  // At the end: what is in flight becomes a record without times.
  void PublishRest();

 private:
  void OnCompleteTrace(const rocattach_sdk_callback_kernel_dispatch& payload,
                       uint64_t user_data);
  uint32_t Open(const rocattach_sdk_dispatch_info& info, RingHandle* ring);
  Decision Decide(const PlanState* state, const rocattach_sdk_dispatch_info& info,
                  uint32_t kernel, uint32_t agent, SdkOp* count);
  void Fill(const rocattach_sdk_dispatch_info& info, uint32_t kernel, uint16_t agent_id,
            const Decision& decision, RingHandle* ring, rocattach_inflight* entry);
  void Publish(uint32_t index, uint64_t start_ns, uint64_t end_ns);
  uint32_t MakeValues(const SdkOp& op, const rocattach_inflight& entry,
                      const rocattach_sdk_counter_record* records, size_t count,
                      uint32_t ring_slots, rocattach_values* slots,
                      uint32_t* instance_slots);

  bool PushInstances(uint32_t index, const void* group, uint32_t slots,
                     uint32_t instances, const rocattach_sdk_counter_record* records,
                     size_t count, RingHandle* ring);

  Parts parts_ = {};
  SdkOps ops_;
  KernelTable queues_;  // the SDK's queue id -> dictionary id
  TinyLock queues_lock_;
  uint32_t baseline_ = 0;
  uint64_t clock_ns_ = 0;  // time that reading the clock adds to a measurement
  const SdkPassTable* passes_ = nullptr;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_DISPATCHES_H_
