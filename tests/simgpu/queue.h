// A hardware queue: a ring in the client's memory, its indices and its doorbell.
#ifndef ROCATTACH_TESTS_SIMGPU_QUEUE_H_
#define ROCATTACH_TESTS_SIMGPU_QUEUE_H_

#include <hsa/amd_hsa_queue.h>
#include <hsa/hsa.h>
#include <stdbool.h>
#include <stdint.h>

// The value of a doorbell that was never rung: 0 would be a valid first value.
#define SIMGPU_DOORBELL_SILENT UINT64_MAX

enum simgpu_queue_kind { SIMGPU_QUEUE_AQL, SIMGPU_QUEUE_SDMA };

struct simgpu_queue {
  struct simgpu_queue* next;
  uint32_t id;
  enum simgpu_queue_kind kind;
  uint32_t node;
  unsigned gpu;  // index of the GPU, node - 1
  unsigned doorbell_slot;
  void* ring;
  uint64_t ring_bytes;
  volatile uint64_t* doorbell;
  bool halted;  // after an error that was reported to the client
  // Address for error reasons, as bits, and an event's ID, if the runtime enabled that.
  // Otherwise errors are reported in the queue's inactive signal.
  volatile int64_t* error_reason;
  uint32_t error_event;

  // AQL. `amd_queue` is the runtime's control structure around the read index.
  amd_queue_t* amd_queue;
  uint64_t rung;             // the doorbell has announced packets below this index
  uint64_t unrung_until;     // end of the packets of the grace period below
  uint64_t unrung_since_ns;  // 0 if no packet waits for its doorbell
  bool running;              // a dispatch is in progress until end_ticks
  bool waiting_for_scratch;
  uint64_t start_ticks;
  uint64_t end_ticks;

  // SDMA. Indices are monotonic byte counts; `read_word` is in the client's memory.
  uint64_t read_bytes;
  volatile uint64_t* read_word;
  uint64_t busy_until_ticks;
};

// The result of one visit to a queue. Ordered: the largest decides what to do next.
enum simgpu_step {
  SIMGPU_IDLE,     // nothing to do
  SIMGPU_BLOCKED,  // work that waits for a signal, memory value or doorbell
  SIMGPU_RUNNING,  // a kernel or copy is in progress; see simgpu_queue_deadline()
  SIMGPU_PROGRESS  // something was done; visit again soon
};

// End of the work in progress, in GPU ticks; 0 if there is none.
uint64_t simgpu_queue_deadline(const struct simgpu_queue* queue);

#endif  // ROCATTACH_TESTS_SIMGPU_QUEUE_H_
