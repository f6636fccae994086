// The unit in which /proc counts times of processes.
#ifndef ROCATTACH_USERSPACE_BASE_CLOCK_TICKS_H_
#define ROCATTACH_USERSPACE_BASE_CLOCK_TICKS_H_

#include <unistd.h>

#include <cstdint>

namespace rocattach {

// One clock tick: 10 ms on every kernel for x86.
inline uint64_t ClockTickNs() {
  static const uint64_t tick_ns =
      1'000'000'000u / static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  return tick_ns;
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_CLOCK_TICKS_H_
