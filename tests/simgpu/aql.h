// The AQL packet processor of one queue.
#ifndef ROCATTACH_TESTS_SIMGPU_AQL_H_
#define ROCATTACH_TESTS_SIMGPU_AQL_H_

#include "tests/simgpu/queue.h"

// Does what can be done now, for a limited number of packets. Never blocks, except
// while the stand-in of a kernel runs.
enum simgpu_step simgpu_aql_step(struct simgpu_queue* queue);

// Number of packets so far that were processed without their doorbell.
uint64_t simgpu_aql_unrung_packets(void);

// Number of kernel dispatches completed so far.
uint64_t simgpu_aql_dispatches(void);

// The sum of the dispatches' durations.
uint64_t simgpu_aql_kernel_ns(void);

// From now on, calls `observer` with the packet of each kernel dispatch that completes
// on `node`, before its completion signal; NULL ends that. It is called on the engine's
// thread, with the engine's lock held, so it must not call the runtime.
void simgpu_aql_observe(void (*observer)(uint32_t node, const void* packet, void* data),
                        void* data);

// Sets all counts to 0 and ends observation, in a forked child.
void simgpu_aql_forget_statistics(void);

#endif  // ROCATTACH_TESTS_SIMGPU_AQL_H_
