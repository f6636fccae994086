// The clocks of this project. Event and record times are CLOCK_BOOTTIME nanoseconds
// everywhere; wall time is only ever derived from a snapshot of several clocks.
#ifndef ROCATTACH_USERSPACE_BASE_CLOCK_H_
#define ROCATTACH_USERSPACE_BASE_CLOCK_H_

#include <time.h>
#include <unistd.h>

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

// The shortest of several readings: a thread that loses its CPU between two clocks would
// shift everything that is related by them.
template <typename Read>
ClockSnapshot ShortestSnapshot(Read read) {
  constexpr int kReadings = 32;
  constexpr uint64_t kShortNs = 10'000;
  ClockSnapshot best;
  uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < kReadings && shortest > kShortNs; ++i) {
    const ClockSnapshot snapshot = {read(CLOCK_BOOTTIME), read(CLOCK_MONOTONIC),
                                    read(CLOCK_MONOTONIC_RAW), read(CLOCK_REALTIME)};
    const uint64_t took = read(CLOCK_BOOTTIME) - snapshot.boottime_ns;
    if (took >= shortest) continue;
    shortest = took;
    best = snapshot;
  }
  return best;
}

inline ClockSnapshot CaptureClockSnapshot() {
  return ShortestSnapshot(ClockNs);
}

// The unit in which /proc counts times of processes: 10 ms on every kernel for x86.
inline uint64_t ClockTickNs() {
  static const uint64_t tick_ns =
      1'000'000'000u / static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  return tick_ns;
}

// The time from `begin_ns` to `end_ns`, which may be from different sources. 0 where
// one of them is missing (0), or the end is the earlier one: times from processes and
// recordings may be wrong.
inline uint64_t ElapsedNs(uint64_t begin_ns, uint64_t end_ns) {
  return begin_ns == 0 || end_ns < begin_ns ? 0 : end_ns - begin_ns;
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_CLOCK_H_
