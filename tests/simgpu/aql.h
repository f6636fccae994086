// The AQL packet processor of one queue.
#ifndef ROCATTACH_TESTS_SIMGPU_AQL_H_
#define ROCATTACH_TESTS_SIMGPU_AQL_H_

#include "tests/simgpu/queue.h"

// Does what can be done now, at most some packets' worth. Never blocks, except for as
// long as a kernel's stand-in runs.
enum simgpu_step simgpu_aql_step(struct simgpu_queue* queue);

// How many packets have been processed without their doorbell so far.
uint64_t simgpu_aql_unrung_packets(void);

// How many kernel dispatches have been completed so far.
uint64_t simgpu_aql_dispatches(void);

// The sum of their durations.
uint64_t simgpu_aql_kernel_ns(void);

// Calls `observer` with the packet of each kernel dispatch that completes on `node`
// from now on, before its completion signal; NULL: no more. On the engine's thread,
// with its lock held: it must not call the runtime.
void simgpu_aql_observe(void (*observer)(uint32_t node, const void* packet, void* data),
                        void* data);

// Sets all counts to 0 and ends observation, in a forked child.
void simgpu_aql_forget_statistics(void);

#endif  // ROCATTACH_TESTS_SIMGPU_AQL_H_
