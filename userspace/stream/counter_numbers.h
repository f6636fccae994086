// Counter values as the integers or bits whose differences CounterBatch stores.
#ifndef ROCATTACH_USERSPACE_STREAM_COUNTER_NUMBERS_H_
#define ROCATTACH_USERSPACE_STREAM_COUNTER_NUMBERS_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rocattach {

// Flags in CounterBatch.shape_flags.
inline constexpr uint32_t kWholeValues = 1;
inline constexpr uint32_t kWholeInstances = 2;
// Maximum number of instance values in a batch, so that an absent column cannot make a
// reader allocate more.
inline constexpr size_t kMaxBatchInstances = size_t{1} << 20;

inline uint64_t BitsOf(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// True if the value survives conversion to an integer below 2^53 and back bit for bit;
// -0 does not. Avoids std::trunc, which is a function call on baseline x86-64.
inline bool IsWhole(double value) {
  constexpr double kLimit = 9007199254740992.0;  // 2^53
  // False for NaN as well.
  if (!(std::abs(value) < kLimit)) return false;
  return BitsOf(static_cast<double>(static_cast<int64_t>(value))) == BitsOf(value);
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

// Minimum and maximum are stored relative to this. `whole` requires IsWhole(sum).
inline uint64_t MiddleOf(double sum, double per_instance, bool whole) {
  if (whole) return static_cast<uint64_t>(static_cast<int64_t>(sum * per_instance));
  return per_instance == 1 ? BitsOf(sum) : 0;
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_COUNTER_NUMBERS_H_
