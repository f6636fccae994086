// The simulated GPUs at work: the list of queues, and the thread that serves them all.
#ifndef ROCATTACH_TESTS_SIMGPU_ENGINE_H_
#define ROCATTACH_TESTS_SIMGPU_ENGINE_H_

#include <hsakmt.h>
#include <stdint.h>

// Creates a queue and, with the first one, the thread. `resource` as in
// hsaKmtCreateQueue(): for an AQL queue its read pointer is the caller's. `event`: errors
// are reported to resource->ErrorReason, and set it; NULL: they are not.
HSAKMT_STATUS simgpu_engine_create_queue(uint32_t node, HSA_QUEUE_TYPE type, void* ring,
                                         uint64_t ring_bytes, const HsaEvent* event,
                                         HsaQueueResource* resource);

// Removes a queue. When this returns, nothing of it is touched any more; packets that
// were not processed never are.
HSAKMT_STATUS simgpu_engine_destroy_queue(HSA_QUEUEID id);

// Stops serving a queue (percentage 0), or starts it again.
HSAKMT_STATUS simgpu_engine_suspend_queue(HSA_QUEUEID id, bool suspended);

// Ends the thread and forgets all queues.
void simgpu_engine_stop(void);

void simgpu_engine_before_fork(void);
void simgpu_engine_after_fork_parent(void);
void simgpu_engine_after_fork_child(void);

#endif  // ROCATTACH_TESTS_SIMGPU_ENGINE_H_
