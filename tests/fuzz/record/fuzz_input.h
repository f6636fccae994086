// The bytes of a fuzz target's input, taken from the front.
#ifndef ROCATTACH_TESTS_FUZZ_RECORD_FUZZ_INPUT_H_
#define ROCATTACH_TESTS_FUZZ_RECORD_FUZZ_INPUT_H_

#include <string.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace rocattach {

class FuzzInput {
 public:
  explicit FuzzInput(absl::Span<const uint8_t> bytes) : left_(bytes) {}

  bool empty() const { return left_.empty(); }
  // Bytes behind the end are zeros.
  template <typename T>
  T Read() {
    T value = {};
    const absl::Span<const uint8_t> bytes = ReadBytes(sizeof(T));
    memcpy(static_cast<void*>(&value), bytes.data(), bytes.size());
    return value;
  }
  // Returns fewer bytes at the end.
  absl::Span<const uint8_t> ReadBytes(size_t count) {
    const absl::Span<const uint8_t> bytes = left_.subspan(0, count);
    left_.remove_prefix(bytes.size());
    return bytes;
  }

 private:
  absl::Span<const uint8_t> left_;
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_FUZZ_RECORD_FUZZ_INPUT_H_
