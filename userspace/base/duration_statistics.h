// Count, sum, extremes and deviation of durations, in constant memory.
#ifndef ROCATTACH_USERSPACE_BASE_DURATION_STATISTICS_H_
#define ROCATTACH_USERSPACE_BASE_DURATION_STATISTICS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace rocattach {

class DurationStatistics {
 public:
  void Add(uint64_t ns) {
    ++calls_;
    total_ += ns;
    min_ = calls_ == 1 ? ns : std::min(min_, ns);
    max_ = std::max(max_, ns);
    // Welford's algorithm: sums of squares would lose the small differences.
    const double value = static_cast<double>(ns), before = value - mean_;
    mean_ += before / static_cast<double>(calls_);
    squares_ += before * (value - mean_);
  }
  void Merge(const DurationStatistics& other) {
    if (other.calls_ == 0) return;
    const double mine = static_cast<double>(calls_);
    const double theirs = static_cast<double>(other.calls_);
    const double apart = other.mean_ - mean_;
    squares_ += other.squares_ + apart * apart * mine * theirs / (mine + theirs);
    mean_ += apart * theirs / (mine + theirs);
    min_ = calls_ == 0 ? other.min_ : std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
    calls_ += other.calls_;
    total_ += other.total_;
  }

  uint64_t calls() const { return calls_; }
  uint64_t total() const { return total_; }
  uint64_t min() const { return min_; }
  uint64_t max() const { return max_; }
  double average() const {
    return calls_ == 0 ? 0 : static_cast<double>(total_) / static_cast<double>(calls_);
  }
  // Sample variance and deviation, with n - 1; 0 for fewer than two durations.
  double variance() const {
    return calls_ < 2 ? 0 : squares_ / static_cast<double>(calls_ - 1);
  }
  double deviation() const { return std::sqrt(variance()); }

 private:
  uint64_t calls_ = 0, total_ = 0, min_ = 0, max_ = 0;
  double mean_ = 0, squares_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_DURATION_STATISTICS_H_
