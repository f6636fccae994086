// The SDMA (copy engine) packet processor of one queue: the gfx9 packets that the HSA
// runtime writes.
#ifndef ROCATTACH_TESTS_SIMGPU_SDMA_H_
#define ROCATTACH_TESTS_SIMGPU_SDMA_H_

#include "tests/simgpu/queue.h"

// Does what can be done now. Never blocks.
enum simgpu_step simgpu_sdma_step(struct simgpu_queue* queue);

// Number of copy packets executed so far (a large copy consists of several).
uint64_t simgpu_sdma_copies(void);

// Sets the count to 0, in a forked child.
void simgpu_sdma_forget_statistics(void);

#endif  // ROCATTACH_TESTS_SIMGPU_SDMA_H_
