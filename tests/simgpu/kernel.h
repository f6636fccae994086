// Computes the result of a dispatch: finds the kernel behind a kernel object and runs
// its host stand-in, if there is one.
#ifndef ROCATTACH_TESTS_SIMGPU_KERNEL_H_
#define ROCATTACH_TESTS_SIMGPU_KERNEL_H_

#include <hsa/hsa.h>

// Runs the stand-in of this dispatch's kernel. Kernels without one compute nothing.
// Only for the processor thread: it keeps a cache without locks.
void simgpu_kernel_execute(const hsa_kernel_dispatch_packet_t* dispatch);

#endif  // ROCATTACH_TESTS_SIMGPU_KERNEL_H_
