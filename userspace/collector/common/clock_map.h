// GPU ticks -> CLOCK_BOOTTIME nanoseconds.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COMMON_CLOCK_MAP_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COMMON_CLOCK_MAP_H_

#include <stdint.h>

namespace rocattach::collector {

// A line through two points that the runtime returned, accurate near the base. Not
// thread-safe: each queue has its own, under its lock.
class ClockMap {
 public:
  // True if `ticks` lies where the line may be used.
  bool Covers(uint64_t ticks) const {
    return ticks - base_ticks_ + reach_ <= 2 * reach_ && reach_ != 0;
  }

  // Line through (ticks0, ns0) and (ticks1, ns1), ticks0 < ticks1, based at point 1.
  // False, and the map covers nothing, if the points are implausible.
  bool Set(uint64_t ticks0, uint64_t ns0, uint64_t ticks1, uint64_t ns1) {
    reach_ = 0;
    if (ticks1 <= ticks0 || ns1 <= ns0) return false;
    uint64_t ticks = ticks1 - ticks0;
    uint64_t ns = ns1 - ns0;
    // 1 MHz to 10 GHz; also keeps the shifted division within 128 bits.
    if (ns > ticks * 1000 || ticks > ns * 10) return false;
    multiplier_ =
        static_cast<uint64_t>((static_cast<unsigned __int128>(ns) << kShift) / ticks);
    base_ticks_ = ticks1;
    base_ns_ = ns1;
    // 40 ms worth of ticks: the clocks' drift within this time is far below a tick.
    reach_ = static_cast<uint64_t>(
        (static_cast<unsigned __int128>(kReachNs) << kShift) / multiplier_);
    return true;
  }

  uint64_t ToNs(uint64_t ticks) const {
    if (ticks >= base_ticks_) return base_ns_ + Scale(ticks - base_ticks_);
    return base_ns_ - Scale(base_ticks_ - ticks);
  }

  void Reset() { reach_ = 0; }
  uint64_t base_ticks() const { return base_ticks_; }
  uint64_t base_ns() const { return base_ns_; }
  uint64_t ticks_per_second() const {
    return multiplier_ == 0
               ? 0
               : static_cast<uint64_t>(
                     (static_cast<unsigned __int128>(1'000'000'000) << kShift) /
                     multiplier_);
  }

 private:
  static constexpr int kShift = 32;
  static constexpr uint64_t kReachNs = 40'000'000;
  uint64_t Scale(uint64_t ticks) const {
    return static_cast<uint64_t>(
        (static_cast<unsigned __int128>(ticks) * multiplier_) >> kShift);
  }
  uint64_t base_ticks_ = 0;
  uint64_t base_ns_ = 0;
  uint64_t multiplier_ = 0;  // nanoseconds per tick, 32 fractional bits
  uint64_t reach_ = 0;       // ticks to either side of the base; 0: nothing covered
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COMMON_CLOCK_MAP_H_
