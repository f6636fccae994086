// Stand-ins for the kernels by which the runtimes themselves copy and fill memory.
#ifndef ROCATTACH_TESTS_SIMGPU_BLIT_H_
#define ROCATTACH_TESTS_SIMGPU_BLIT_H_

#include "tests/simgpu/standin.h"

// The stand-in of one of HIP's own kernels (names that begin with __amd_rocclr_), NULL
// if `name` is none of them.
simgpu_standin simgpu_blit_kernel(const char* name);

// Stands in for the HSA runtime's built-in copy and fill shaders. They have no names;
// which one it is follows from the shape of its arguments.
void simgpu_blit_shader(const struct simgpu_launch* launch);

#endif  // ROCATTACH_TESTS_SIMGPU_BLIT_H_
