// Memory that is allocated and freed, as rocprofiler-sdk reports it.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_MEMORY_TRACE_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_MEMORY_TRACE_H_

#include <stdint.h>

#include "userspace/collector/common/ring.h"
#include "userspace/collector/sdk/agents.h"
#include "userspace/collector/sdk/dispatches.h"

namespace rocattach::collector {

// Traces one kind of it: memory of calls, or scratch memory of the runtime. Records
// arrive in the SDK's buffer, which the worker flushes every few milliseconds: only
// there does scratch memory have its size, and all records have their times.
class SdkMemoryTrace {
 public:
  struct Parts {
    const rocattach_sdk_functions* sdk;
    const SdkAgents* agents;
    SdkDispatches* dispatches;  // for the numbers of queues
    RingSet* rings;
  };
  // Creates the buffer and the service in `context`. `kind`: BUFFER_MEMORY_ALLOCATION
  // or BUFFER_SCRATCH_MEMORY.
  rocattach_sdk_status Configure(const Parts& parts, rocattach_sdk_context_id context,
                                 rocattach_sdk_buffer_kind kind);
  bool configured() const { return buffer_.handle != 0; }

  // Records delivered from now on belong to this plan.
  void SetPlan(uint64_t generation) {
    StoreRelease(&plan_tag_, ROCATTACH_PLAN_TAG(generation));
  }
  // Delivers what has been reported. Not on a callback thread of the SDK.
  void Flush() {
    // A buffer that is busy is already being delivered.
    if (configured()) parts_.sdk->flush_buffer(buffer_);
  }

 private:
  static void OnBuffer(rocattach_sdk_context_id context, rocattach_sdk_buffer_id buffer,
                       rocattach_sdk_record_header** headers, size_t count, void* self,
                       uint64_t dropped);
  bool Read(const void* payload, rocattach_memory* out);
  uint16_t AgentId(rocattach_sdk_agent_id agent) const {
    const uint32_t index = parts_.agents->Find(agent);
    return index != SdkAgents::kNone ? parts_.agents->at(index).dictionary_id
                                     : uint16_t{0};
  }

  Parts parts_ = {};
  rocattach_sdk_buffer_kind kind_ = ROCATTACH_SDK_BUFFER_MEMORY_ALLOCATION;
  rocattach_sdk_buffer_id buffer_ = {0};
  uint64_t dropped_ = 0;  // as last reported by the SDK
  uint32_t plan_tag_ = 0;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_MEMORY_TRACE_H_
