// The SIMGPU_* environment variables, read when the first client opens the device.
#ifndef ROCATTACH_TESTS_SIMGPU_OPTIONS_H_
#define ROCATTACH_TESTS_SIMGPU_OPTIONS_H_

#include <stdbool.h>
#include <stdint.h>

#define SIMGPU_MAX_GPUS 8

enum simgpu_arch { SIMGPU_ARCH_GFX90A, SIMGPU_ARCH_GFX906 };

struct simgpu_options {
  enum simgpu_arch arch;     // SIMGPU_ARCH: gfx90a (default) or gfx906
  unsigned gpu_count;        // SIMGPU_COUNT: 1 to 8, default 1
  uint64_t kernel_ns;        // SIMGPU_KERNEL_NS: time of every kernel, default 5000
  uint64_t copy_mbps;        // SIMGPU_COPY_MBPS: SDMA rate, 10^6 B/s, default 16000
  uint64_t copy_latency_ns;  // SIMGPU_COPY_LATENCY_NS: start-up of a copy, default 1000
  uint64_t unrung_ns;      // SIMGPU_UNRUNG_NS: patience with a doorbell, default 10 ms
  const char* stats_path;  // SIMGPU_STATS: file that each process appends a line to
};

// Reads the environment. False, with a message on stderr that names the variable, if
// a value is not valid. Call again after the environment may have changed.
bool simgpu_options_load(void);

// The same if nothing has been read yet; else true.
bool simgpu_options_ready(void);

// The values that simgpu_options_load() read; the defaults before that.
const struct simgpu_options* simgpu_options_get(void);

#endif  // ROCATTACH_TESTS_SIMGPU_OPTIONS_H_
