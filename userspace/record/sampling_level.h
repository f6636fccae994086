// The share of dispatches that is recorded while the service stays within a budget.
#ifndef ROCATTACH_USERSPACE_RECORD_SAMPLING_LEVEL_H_
#define ROCATTACH_USERSPACE_RECORD_SAMPLING_LEVEL_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "userspace/abi/sampling.h"

namespace rocattach {

// Every dispatch, one in N, or none: dispatches are then only counted.
class SamplingLevel {
 public:
  // Above this, the recorded dispatches say too little to be worth their cost.
  static constexpr uint32_t kMostDivisor = 1024;

  static constexpr SamplingLevel Every() { return SamplingLevel(1); }
  static constexpr SamplingLevel CountsOnly() { return SamplingLevel(kNone); }
  // One in `divisor`, a number from 1; more than kMostDivisor: none.
  static constexpr SamplingLevel OneIn(uint64_t divisor) {
    return divisor > kMostDivisor
               ? CountsOnly()
               : SamplingLevel(static_cast<uint32_t>(std::max<uint64_t>(divisor, 1)));
  }

  bool every() const { return divisor_ == 1; }
  bool counts_only() const { return divisor_ == kNone; }
  // Number of dispatches that a recorded one stands for; 0 if none is recorded.
  uint32_t divisor() const { return counts_only() ? 0 : divisor_; }
  // The share of dispatches that is recorded.
  double ratio() const { return counts_only() ? 0 : 1.0 / divisor_; }
  // As the collector reads it.
  uint32_t abi() const { return divisor_; }
  // "every dispatch", "one dispatch in 8", "counts only".
  std::string Text() const {
    if (every()) return "every dispatch";
    if (counts_only()) return "counts only";
    return "one dispatch in " + std::to_string(divisor_);
  }

  friend bool operator==(const SamplingLevel& a, const SamplingLevel& b) {
    return a.divisor_ == b.divisor_;
  }
  friend bool operator!=(const SamplingLevel& a, const SamplingLevel& b) {
    return !(a == b);
  }

 private:
  static constexpr uint32_t kNone = ROCATTACH_SAMPLING_NONE;
  explicit constexpr SamplingLevel(uint32_t divisor) : divisor_(divisor) {}

  uint32_t divisor_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_SAMPLING_LEVEL_H_
