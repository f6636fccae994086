// Host stand-ins: how a program that runs on the simulated GPU gives its kernels real
// results. For a kernel with the (mangled) name NAME, the program, or any library that
// it has loaded, exports a function simgpu_kernel_NAME; the simulator calls it once per
// dispatch, on its own thread, before it completes the dispatch. A program needs
// -rdynamic for this. On a real GPU the functions are simply never called.
//
//   // __global__ void scale(float* data, float factor, int n)
//   struct scale_arguments { float* data; float factor; int n; };
//   SIMGPU_STANDIN(_Z5scalePffi) {
//     const struct scale_arguments* a = (const struct scale_arguments*)launch->kernarg;
//     for (int i = 0; i < a->n; i++) a->data[i] *= a->factor;
//   }
//
// The arguments lie in kernarg in order, each aligned to its size, as in a C struct.
#ifndef ROCATTACH_TESTS_SIMGPU_STANDIN_H_
#define ROCATTACH_TESTS_SIMGPU_STANDIN_H_

#include <stdint.h>

struct simgpu_launch {
  const void* kernarg;         // explicit arguments, then the compiler's hidden ones
  uint32_t grid_size[3];       // in work-items
  uint32_t workgroup_size[3];  // in work-items
};

typedef void (*simgpu_standin)(const struct simgpu_launch* launch);

#ifdef __cplusplus
#define SIMGPU_EXTERN_C extern "C"
#else
#define SIMGPU_EXTERN_C extern
#endif

#define SIMGPU_STANDIN(name)                                                        \
  SIMGPU_EXTERN_C __attribute__((visibility("default"))) void simgpu_kernel_##name( \
      const struct simgpu_launch* launch);                                          \
  void simgpu_kernel_##name(__attribute__((unused)) const struct simgpu_launch* launch)

#endif  // ROCATTACH_TESTS_SIMGPU_STANDIN_H_
