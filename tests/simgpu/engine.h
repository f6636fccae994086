// The simulated GPUs at work: the list of queues, and the thread that serves them all.
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
  // Where the indices are, in the client's memory. That of an AQL queue is in its
  // amd_queue_t.
  uint64_t* read_index;
  // Where errors are reported, and the event that says so; NULL: nowhere.
  volatile int64_t* error_reason;
  uint32_t error_event;
};

// Creates a queue and, with the first one, the thread. `*doorbell` is its number among
// those of its GPU. 0, or an errno.
int simgpu_engine_create_queue(const struct simgpu_queue_request* request, uint32_t* id,
                               unsigned* doorbell);

// Removes a queue; without any the thread ends. When this returns, nothing of the
// queue is touched any more; packets that were not processed never are.
int simgpu_engine_destroy_queue(uint32_t id);

// Stops serving a queue (percentage 0), or starts it again.
int simgpu_engine_suspend_queue(uint32_t id, bool suspended);

// How many queues there are.
unsigned simgpu_engine_queues(void);

// Before the process ends: from the return of this on nothing is done any more, and all
// other functions wait for ever.
void simgpu_engine_halt(void);

void simgpu_engine_before_fork(void);
void simgpu_engine_after_fork_parent(void);
void simgpu_engine_after_fork_child(void);

#endif  // ROCATTACH_TESTS_SIMGPU_ENGINE_H_
