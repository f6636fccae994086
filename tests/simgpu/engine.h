// The engine of the simulated GPUs: the list of queues and the thread that serves it.
#ifndef ROCATTACH_TESTS_SIMGPU_ENGINE_H_
#define ROCATTACH_TESTS_SIMGPU_ENGINE_H_

#include <stdbool.h>
#include <stdint.h>

#include "tests/simgpu/queue.h"

struct simgpu_queue_request {
  enum simgpu_queue_kind kind;
  unsigned gpu;
  void* ring;
  uint64_t ring_bytes;
  // Address of the read index in the client's memory. That of an AQL queue is in its
  // amd_queue_t.
  uint64_t* read_index;
  // Address for error reasons, and the event that signals one; NULL: not reported.
  volatile int64_t* error_reason;
  uint32_t error_event;
};

// Creates a queue and, with the first one, the thread. `*doorbell` is the queue's
// number among those of its GPU. 0, or an errno.
int simgpu_engine_create_queue(const struct simgpu_queue_request* request, uint32_t* id,
                               unsigned* doorbell);

// Removes a queue; the thread ends with the last one. After the return, nothing of the
// queue is accessed any more, and packets not processed by then are never processed.
int simgpu_engine_destroy_queue(uint32_t id);

// Suspends a queue (percentage 0), or resumes it.
int simgpu_engine_suspend_queue(uint32_t id, bool suspended);

// Number of queues.
unsigned simgpu_engine_queues(void);

// Called before the process ends: after the return the engine does nothing any more,
// and all other functions wait for ever.
void simgpu_engine_halt(void);

void simgpu_engine_before_fork(void);
void simgpu_engine_after_fork_parent(void);
void simgpu_engine_after_fork_child(void);

#endif  // ROCATTACH_TESTS_SIMGPU_ENGINE_H_
