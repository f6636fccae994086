#define _GNU_SOURCE
#include "tests/simgpu/clock.h"

#include <time.h>

static uint64_t read_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t simgpu_system_ns(void) {
  return read_clock(CLOCK_BOOTTIME);
}

uint64_t simgpu_cpu_ns(void) {
  return read_clock(CLOCK_MONOTONIC_RAW);
}

uint64_t simgpu_gpu_ticks_at(unsigned gpu, uint64_t system_ns) {
  const uint64_t offset = 0x5a5a00000000u + (uint64_t)gpu * 0x0100000000u;
  const uint64_t ppm = 20 + 7 * (uint64_t)gpu;
  // 40 ns per tick; `ppm` more ticks in every million. Both terms are monotonic.
  const uint64_t nominal = system_ns / 40;
  return offset + nominal + nominal / 1000000 * ppm + nominal % 1000000 * ppm / 1000000;
}

uint64_t simgpu_gpu_ticks(unsigned gpu) {
  return simgpu_gpu_ticks_at(gpu, simgpu_system_ns());
}

uint64_t simgpu_ns_to_ticks(uint64_t duration_ns) {
  return (duration_ns + 20) / 40;
}

uint64_t simgpu_ticks_to_ns(uint64_t ticks) {
  return ticks * 40;
}
