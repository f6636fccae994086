// What a dispatch computes: finds the kernel behind a kernel object and runs its host
// stand-in, if there is one.
#ifndef ROCATTACH_TESTS_SIMGPU_KERNEL_H_
#define ROCATTACH_TESTS_SIMGPU_KERNEL_H_

#include <hsa/hsa.h>

// Runs the stand-in of this dispatch's kernel. Kernels without one compute nothing.
// For the processor thread only: it keeps a cache without locks.
void simgpu_kernel_execute(const hsa_kernel_dispatch_packet_t* dispatch);

#endif  // ROCATTACH_TESTS_SIMGPU_KERNEL_H_
