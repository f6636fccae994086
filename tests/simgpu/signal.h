// The packet processor's changes to HSA signals (amd_signal_t in amd_hsa_signal.h).
#ifndef ROCATTACH_TESTS_SIMGPU_SIGNAL_H_
#define ROCATTACH_TESTS_SIMGPU_SIGNAL_H_

#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa.h>
#include <stdint.h>

// Current value, with acquire order. `signal.handle` must not be 0.
int64_t simgpu_signal_load(hsa_signal_t signal);

// Stores a value and raises the signal's interrupt.
void simgpu_signal_store(hsa_signal_t signal, int64_t value);

// Completes a signal: subtracts one and raises the interrupt. A null handle is ignored.
// The signal may no longer exist when this returns.
void simgpu_signal_complete(hsa_signal_t signal);

// Writes the times, in GPU ticks. Call before simgpu_signal_complete(), never after.
void simgpu_signal_set_times(hsa_signal_t signal, uint64_t start, uint64_t end);

#endif  // ROCATTACH_TESTS_SIMGPU_SIGNAL_H_
