// The clocks of this project. Event and record times are CLOCK_BOOTTIME nanoseconds
// everywhere; wall time is only ever derived from a snapshot of several clocks.
#ifndef ROCATTACH_USERSPACE_BASE_CLOCK_H_
#define ROCATTACH_USERSPACE_BASE_CLOCK_H_

#include <time.h>

#include <cstdint>

namespace rocattach {

// Nanoseconds of the given POSIX clock.
inline uint64_t ClockNs(clockid_t clock) {
  timespec ts;
  clock_gettime(clock, &ts);
  return static_cast<uint64_t>(ts.tv_sec) * 1'000'000'000u +
         static_cast<uint64_t>(ts.tv_nsec);
}

// Nanoseconds since boot, suspend included: the time base of all records.
inline uint64_t BootNs() {
  return ClockNs(CLOCK_BOOTTIME);
}

// One instant read on the clocks that a reader of a stream may want to relate.
struct ClockSnapshot {
  uint64_t boottime_ns = 0;
  uint64_t monotonic_ns = 0;
  uint64_t monotonic_raw_ns = 0;
  uint64_t realtime_ns = 0;
};

inline ClockSnapshot TakeClockSnapshot() {
  return {BootNs(), ClockNs(CLOCK_MONOTONIC), ClockNs(CLOCK_MONOTONIC_RAW),
          ClockNs(CLOCK_REALTIME)};
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_CLOCK_H_
