// Quantiles of many durations in little memory.
#ifndef ROCATTACH_USERSPACE_BASE_DURATION_HISTOGRAM_H_
#define ROCATTACH_USERSPACE_BASE_DURATION_HISTOGRAM_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "userspace/base/duration_statistics.h"

namespace rocattach {

// Counts durations in buckets of 1/32 of a power of two: quantiles are accurate to 1.6
// %. Only the buckets between the smallest and the largest duration take memory.
class DurationHistogram {
 public:
  void Add(uint64_t ns) {
    statistics_.Add(ns);
    AddToBucket(Bucket(ns), 1);
  }

  void Merge(const DurationHistogram& other) {
    statistics_.Merge(other.statistics_);
    for (size_t i = 0; i < other.counts_.size(); ++i) {
      if (other.counts_[i] > 0) AddToBucket(other.base_ + i, other.counts_[i]);
    }
  }

  // The duration below which a fraction `quantile` (0..1) of them lies, clamped to the
  // smallest and the largest; 0 if there are none.
  uint64_t Quantile(double quantile) const {
    uint64_t rank = static_cast<uint64_t>(quantile * static_cast<double>(count()));
    rank = std::min(rank, count() == 0 ? 0 : count() - 1);
    uint64_t seen = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen > rank) {
        const uint64_t low = LowerBound(base_ + i);
        const uint64_t middle = low + (LowerBound(base_ + i + 1) - low) / 2;
        return std::clamp(middle, min(), max());
      }
    }
    return 0;
  }

  // Number of durations shorter than `ns`; exact for powers of two.
  uint64_t CountBelow(uint64_t ns) const {
    uint64_t count = 0;
    for (size_t i = 0; i < counts_.size() && base_ + i < Bucket(ns); ++i) {
      count += counts_[i];
    }
    return count;
  }

  uint64_t count() const { return statistics_.calls(); }
  // These are exact; 0 if there are none.
  uint64_t sum() const { return statistics_.total(); }
  uint64_t min() const { return statistics_.min(); }
  uint64_t max() const { return statistics_.max(); }
  uint64_t mean() const { return count() == 0 ? 0 : sum() / count(); }
  // The mean with its fraction.
  double average() const { return statistics_.average(); }
  // Sample variance and deviation, with n - 1; 0 for fewer than two durations.
  double variance() const { return statistics_.variance(); }
  double deviation() const { return statistics_.deviation(); }

  // Buckets have numbers that grow with the durations in them, 32 for each power of
  // two.
  static size_t BucketNumber(uint64_t ns) { return Bucket(ns); }

  // Calls f(low, high, count) for each bucket with durations from `low` on that are
  // shorter than `high`, shortest first.
  template <typename F>
  void ForEachBucket(F f) const {
    for (size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] == 0) continue;
      f(LowerBound(base_ + i), LowerBound(base_ + i + 1), counts_[i]);
    }
  }

 private:
  static constexpr unsigned kBits = 5;
  static constexpr uint64_t kSteps = 1 << kBits;

  void AddToBucket(size_t bucket, uint64_t times) {
    if (counts_.empty()) base_ = bucket;
    if (bucket < base_) {
      counts_.insert(counts_.begin(), base_ - bucket, 0);
      base_ = bucket;
    }
    if (bucket - base_ >= counts_.size()) counts_.resize(bucket - base_ + 1);
    counts_[bucket - base_] += times;
  }

  static size_t Bucket(uint64_t ns) {
    if (ns < kSteps) return static_cast<size_t>(ns);
    unsigned shift = static_cast<unsigned>(std::bit_width(ns)) - kBits - 1;
    return static_cast<size_t>((shift + 1) * kSteps + ((ns >> shift) - kSteps));
  }

  // The smallest duration of a bucket.
  static uint64_t LowerBound(size_t bucket) {
    if (bucket < kSteps) return bucket;
    uint64_t shift = bucket / kSteps - 1;
    if (shift > 63 - kBits) return ~uint64_t{0};
    return (bucket % kSteps + kSteps) << shift;
  }

  std::vector<uint64_t> counts_;
  size_t base_ = 0;
  DurationStatistics statistics_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_DURATION_HISTOGRAM_H_
