// Two clock domains, as on a machine with a GPU: the system clock, CLOCK_BOOTTIME in
// nanoseconds, and each GPU's own counter of nominally 25 MHz. A GPU's counter has an
// offset and runs a few parts per million fast, differently on each GPU, which exposes
// code that confuses the domains or relates them only once.
#ifndef ROCATTACH_TESTS_SIMGPU_CLOCK_H_
#define ROCATTACH_TESTS_SIMGPU_CLOCK_H_

#include <stdint.h>

// Nominal rate of the GPU counter.
#define SIMGPU_CLOCK_HZ 25000000u

// CLOCK_BOOTTIME in nanoseconds.
uint64_t simgpu_system_ns(void);

// CLOCK_MONOTONIC_RAW in nanoseconds: the driver's CPU clock.
uint64_t simgpu_cpu_ns(void);

// Counter of GPU `gpu` (0, 1, …) at the system time `system_ns`.
uint64_t simgpu_gpu_ticks_at(unsigned gpu, uint64_t system_ns);

// Counter of GPU `gpu` now.
uint64_t simgpu_gpu_ticks(unsigned gpu);

// A duration at the nominal rate, rounded to the nearest tick.
uint64_t simgpu_ns_to_ticks(uint64_t duration_ns);

// A duration in ticks, in nanoseconds at the nominal rate.
uint64_t simgpu_ticks_to_ns(uint64_t ticks);

#endif  // ROCATTACH_TESTS_SIMGPU_CLOCK_H_
