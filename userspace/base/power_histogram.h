// Durations by power of two of a second.
#ifndef ROCATTACH_USERSPACE_BASE_POWER_HISTOGRAM_H_
#define ROCATTACH_USERSPACE_BASE_POWER_HISTOGRAM_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace rocattach {

// Exact: a duration of 2^k seconds is in the bucket that ends there, as Prometheus's
// native histograms of schema 0 have it. Cheap enough for every dispatch.
class PowerHistogram {
 public:
  // The bucket of this exponent, (2^(e-1), 2^e] seconds, contains all shorter
  // durations, too. No duration of one nanosecond or more is in it.
  static constexpr int kLowest = -30;
  static constexpr int kHighest = 35;  // some 1000 years

  // `count` of that duration each.
  void Add(uint64_t ns, uint64_t count = 1) {
    counts_[IndexOf(ns)] += count;
    sum_ns_ += ns * count;
  }
  // Adds the growth from `before`, an earlier state of `now`, to `now`.
  void AddGrowth(const PowerHistogram& now, const PowerHistogram& before) {
    for (size_t i = 0; i < counts_.size(); ++i) {
      counts_[i] += now.counts_[i] - before.counts_[i];
    }
    sum_ns_ += now.sum_ns_ - before.sum_ns_;
  }
  // Number of durations of more than 2^(exponent-1) seconds and at most 2^exponent; for
  // kLowest, of at most that.
  uint64_t In(int exponent) const { return counts_[At(exponent)]; }
  // Number of durations of at most 2^exponent seconds.
  uint64_t UpTo(int exponent) const {
    uint64_t count = 0;
    for (size_t i = 0; i <= At(exponent); ++i) count += counts_[i];
    return count;
  }
  uint64_t count() const { return UpTo(kHighest); }
  uint64_t sum_ns() const { return sum_ns_; }

 private:
  static constexpr size_t At(int exponent) {
    return static_cast<size_t>(exponent - kLowest);
  }
  static size_t IndexOf(uint64_t ns) {
    // In units of 2^-30 s, rounded up: one nanosecond is 2^21 / 5^9 of them. Durations
    // of more than two hours would overflow.
    if (ns >= uint64_t{1} << 43) return IndexOfLong(ns);
    const uint64_t units = ((ns << 21) + 1'953'124) / 1'953'125;
    return units == 0 ? 0 : static_cast<size_t>(std::bit_width(units - 1));
  }
  // Whole seconds, rounded up: bounds from here on are whole seconds, too.
  static size_t IndexOfLong(uint64_t ns) {
    const uint64_t seconds = ns / 1'000'000'000 + (ns % 1'000'000'000 != 0 ? 1 : 0);
    return At(static_cast<int>(std::bit_width(seconds - 1)));
  }

  std::array<uint64_t, static_cast<size_t>(kHighest - kLowest) + 1> counts_ = {};
  uint64_t sum_ns_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_POWER_HISTOGRAM_H_
