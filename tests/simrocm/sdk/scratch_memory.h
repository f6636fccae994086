// Scratch memory of queues. With SIMROCM_SCRATCH_BYTES=N the first dispatch of each
// queue needs so much, which the queue keeps until it is destroyed.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_SCRATCH_MEMORY_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_SCRATCH_MEMORY_H_

#include <hsa/hsa.h>

#include "userspace/collector/sdk/abi.h"

namespace simrocm::sdk {

// A dispatch on the queue.
void NoteScratch(const hsa_queue_t* queue, rocattach_sdk_agent_id agent);
// The queue is gone.
void FreeScratch(const hsa_queue_t* queue);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_SCRATCH_MEMORY_H_
