// The numbers of counter values that are whole, several values at a time.
#ifndef ROCATTACH_USERSPACE_STREAM_WHOLE_VALUES_H_
#define ROCATTACH_USERSPACE_STREAM_WHOLE_VALUES_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "userspace/abi/records.h"

namespace rocattach {

// Of each value its sum, and how far the minimum is below the sum's middle and the
// maximum above it (MiddleOf() in counter_numbers.h). Points to room for one value more
// than there are.
// Two words, which calls pass in registers: three pointers would go through memory, and
// be waited for there.
struct ValueColumns {
  uint64_t* sum;
  size_t room;  // of each column: the next one follows it

  uint64_t* below() const { return sum + room; }
  uint64_t* above() const { return below() + room; }
  // Without the first `values` values.
  ValueColumns From(size_t values) const { return {sum + values, room}; }
};

// Which counter a value is of, and of how many instances: its first word, without what
// is between them.
inline constexpr uint64_t kValueTagBits = 0xffffffff'0000ffff;

// Fills the columns, if the values have these tags and all of their numbers are whole,
// below 2^51 and not negative: that is, nearly always. Otherwise the columns are
// unspecified; other code handles all there can be. `tags` and `per_instance`
// (PerInstance()) have an entry for each value.
bool TakeWholeValues(absl::Span<const rocattach_counter_value> values,
                     const uint64_t* tags, const double* per_instance,
                     ValueColumns out);

bool AreEqual(const uint64_t* numbers, const uint64_t* last, size_t count);

// Replaces numbers by their differences to *last, in zigzag form, and *last by the
// numbers. Returns all differences, ORed.
uint64_t TakeDifferences(uint64_t* numbers, uint64_t* last, size_t count);

// 1.5 * 2^52. A double between 2^52 and 2^53 has the spacing 1. So adding this rounds
// to a whole number, which is then the difference of the bits.
inline constexpr double kRounder = 6755399441055744.0;

// The functions above take the ones that the processor can run. All give the same.
namespace sse2 {
bool TakeWholeValues(absl::Span<const rocattach_counter_value> values,
                     const uint64_t* tags, const double* per_instance,
                     ValueColumns out);
bool AreEqual(const uint64_t* numbers, const uint64_t* last, size_t count);
uint64_t TakeDifferences(uint64_t* numbers, uint64_t* last, size_t count);
}  // namespace sse2

namespace avx2 {
bool TakeWholeValues(absl::Span<const rocattach_counter_value> values,
                     const uint64_t* tags, const double* per_instance,
                     ValueColumns out);
bool AreEqual(const uint64_t* numbers, const uint64_t* last, size_t count);
uint64_t TakeDifferences(uint64_t* numbers, uint64_t* last, size_t count);
}  // namespace avx2

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_WHOLE_VALUES_H_
