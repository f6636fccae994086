// Stand-ins for the kernels with which the runtimes themselves copy and fill memory.
#ifndef ROCATTACH_TESTS_SIMGPU_BLIT_H_
#define ROCATTACH_TESTS_SIMGPU_BLIT_H_

#include "tests/simgpu/standin.h"

// The stand-in for one of HIP's own kernels (names that begin with __amd_rocclr_), or
// NULL if `name` is not one of them.
simgpu_standin simgpu_blit_kernel(const char* name);

// Stands in for the HSA runtime's built-in copy and fill shaders. They have no names;
// the shape of the arguments shows which one it is.
void simgpu_blit_shader(const struct simgpu_launch* launch);

#endif  // ROCATTACH_TESTS_SIMGPU_BLIT_H_
