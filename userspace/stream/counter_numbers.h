// Counter values as the whole numbers or bits that CounterBatch has differences of.
#ifndef ROCATTACH_USERSPACE_STREAM_COUNTER_NUMBERS_H_
#define ROCATTACH_USERSPACE_STREAM_COUNTER_NUMBERS_H_

#include <emmintrin.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "userspace/abi/records.h"

namespace rocattach {

// CounterBatch.shape_flags.
inline constexpr uint32_t kWholeValues = 1;
inline constexpr uint32_t kWholeInstances = 2;
// Maximum values of instances in a batch; an absent column must not make a reader
// allocate more.
inline constexpr size_t kMaxBatchInstances = size_t{1} << 20;

inline uint64_t BitsOf(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Whether it converts to an integer below 2^53 and back bit by bit; -0 does not. Avoids
// std::trunc, which is a function call on baseline x86-64.
inline bool IsWhole(double value) {
  constexpr double kLimit = 9007199254740992.0;  // 2^53
  // False for NaN as well.
  if (!(std::abs(value) < kLimit)) return false;
  return BitsOf(static_cast<double>(static_cast<int64_t>(value))) == BitsOf(value);
}

// The numbers of a value, if all three are whole.
struct WholeNumbers {
  int64_t sum, minimum, maximum;
};

// Takes the numbers of all values; false if one is not whole, by the rule of IsWhole().
// Without a branch for each, since it runs for every value of every counted dispatch.
inline bool TakeWholeNumbers(absl::Span<const rocattach_counter_value> values,
                             WholeNumbers* out) {
  constexpr uint64_t kLimit = uint64_t{1} << 53;
  uint64_t differ = 0, high = 0;
  const auto take = [&](double value) {
    // The instruction itself, which unlike a cast is defined for any value: those out
    // of range become -2^63.
    const int64_t number = _mm_cvttsd_si64(_mm_set_sd(value));
    differ |= BitsOf(static_cast<double>(number)) ^ BitsOf(value);
    high |= static_cast<uint64_t>(number) + (kLimit - 1);
    return number;
  };
  for (const rocattach_counter_value& value : values) {
    *out++ = {take(value.sum), take(value.minimum), take(value.maximum)};
  }
  return differ == 0 && high >> 54 == 0;
}

inline uint64_t NumberOf(double value, bool whole) {
  return whole ? static_cast<uint64_t>(static_cast<int64_t>(value)) : BitsOf(value);
}

inline double ValueOf(uint64_t number, bool whole) {
  if (whole) return static_cast<double>(static_cast<int64_t>(number));
  double value;
  memcpy(&value, &number, sizeof(value));
  return value;
}

inline double PerInstance(uint32_t instances) {
  return instances == 0 ? 0 : 1.0 / static_cast<double>(instances);
}

// What minimum and maximum are written relative to. `whole`: IsWhole(sum).
inline uint64_t MiddleOf(double sum, double per_instance, bool whole) {
  if (whole) return static_cast<uint64_t>(static_cast<int64_t>(sum * per_instance));
  return per_instance == 1 ? BitsOf(sum) : 0;
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_COUNTER_NUMBERS_H_
