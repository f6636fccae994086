// Scratch memory of queues. With SIMROCM_SCRATCH_BYTES=N the first dispatch of each
// queue needs N bytes, which the queue keeps until it is destroyed.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_SCRATCH_MEMORY_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_SCRATCH_MEMORY_H_

#include <hsa/hsa.h>

#include "userspace/collector/sdk/abi.h"

namespace simrocm::sdk {

// Call for each dispatch on the queue: the first one allocates.
void AllocateScratch(const hsa_queue_t* queue, rocattach_sdk_agent_id agent);
// Call when the queue is destroyed.
void FreeScratch(const hsa_queue_t* queue);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_SCRATCH_MEMORY_H_
