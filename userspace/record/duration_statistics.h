// Exact quantiles of a modest number of durations, bounded in memory.
#ifndef ROCATTACH_USERSPACE_RECORD_DURATION_STATISTICS_H_
#define ROCATTACH_USERSPACE_RECORD_DURATION_STATISTICS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rocattach {

// Keeps the durations themselves up to a limit, then every second, fourth, … of what
// comes: quantiles stay exact for small runs and close for long ones.
class DurationStatistics {
 public:
  static constexpr size_t kLimit = 1 << 16;

  void Add(uint64_t ns) {
    ++count_;
    sum_ += ns;
    max_ = std::max(max_, ns);
    min_ = count_ == 1 ? ns : std::min(min_, ns);
    if (count_ % stride_ != 0) return;
    if (values_.size() == kLimit) {
      for (size_t i = 0; i < kLimit / 2; ++i) values_[i] = values_[2 * i];
      values_.resize(kLimit / 2);
      stride_ *= 2;
      if (count_ % stride_ != 0) return;
    }
    values_.push_back(ns);
  }

  uint64_t count() const { return count_; }
  uint64_t max() const { return max_; }
  uint64_t min() const { return min_; }
  uint64_t mean() const { return count_ == 0 ? 0 : sum_ / count_; }
  // The value below which a share `q` (0..1) of the durations lies; 0 without any.
  uint64_t Quantile(double q) const {
    if (values_.empty()) return 0;
    std::vector<uint64_t> sorted = values_;
    size_t rank = std::min(sorted.size() - 1,
                           static_cast<size_t>(q * static_cast<double>(sorted.size())));
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(rank),
                     sorted.end());
    return sorted[rank];
  }

 private:
  std::vector<uint64_t> values_;
  uint64_t count_ = 0;
  uint64_t stride_ = 1;
  uint64_t sum_ = 0;
  uint64_t max_ = 0;
  uint64_t min_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DURATION_STATISTICS_H_
