// The kernels of kernels.cl for the simulated GPU.
#include <stddef.h>

#include "tests/simgpu/standin.h"

SIMGPU_STANDIN(increment) {
  uint64_t* counter = *(uint64_t* const*)launch->kernarg;
  __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

struct accumulate_arguments {
  uint64_t* counter;
  uint64_t amount;
};

SIMGPU_STANDIN(accumulate) {
  const struct accumulate_arguments* a = launch->kernarg;
  __atomic_fetch_add(a->counter, a->amount, __ATOMIC_RELAXED);
}

struct vector_add_arguments {
  const float* a;
  const float* b;
  float* c;
  uint32_t count;
};

SIMGPU_STANDIN(vector_add) {
  const struct vector_add_arguments* a = launch->kernarg;
  for (uint32_t i = 0; i < a->count; i++) a->c[i] = a->a[i] + a->b[i];
}

SIMGPU_STANDIN(reverse_tile) {
  uint32_t* data = *(uint32_t* const*)launch->kernarg;
  for (uint32_t tile = 0; tile + 64 <= launch->grid_size[0]; tile += 64) {
    for (uint32_t i = 0; i < 32; i++) {
      uint32_t kept = data[tile + i];
      data[tile + i] = data[tile + 63 - i];
      data[tile + 63 - i] = kept;
    }
  }
}
