// Dispatches, from the packet in the queue to the records.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_DISPATCH_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_DISPATCH_H_

#include "tests/simrocm/attach/attach_table.h"
#include "tests/simrocm/sdk/state.h"

namespace simrocm::sdk {

// The write interceptor of every proxied queue.
void OnPackets(const hsa_queue_t* queue, hsa_agent_t agent, const void* packets,
               uint64_t count, hsa_amd_queue_intercept_packet_writer writer, void*);

// Call before a queue is destroyed: waits for its dispatches, gives up those left.
void OnQueueDestroyed(const hsa_queue_t* queue);

// Waits until no intercepted dispatch is in flight, at most two seconds. False if it
// gave up.
bool DrainDispatches();

// The API call that the calling thread is in, for correlation; 0 outside of any.
uint64_t& CurrentCall();
uint64_t NextCorrelation();

// The kernel that a packet's kernel_object refers to; 0 if it is not known.
uint64_t KernelOfObject(uint64_t kernel_object);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_DISPATCH_H_
