// Counts of records, by kind.
#ifndef ROCATTACH_USERSPACE_STREAM_RECORD_COUNTS_H_
#define ROCATTACH_USERSPACE_STREAM_RECORD_COUNTS_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace rocattach {

// See record_kinds.h. For counters and samples, the records are single values.
enum class RecordKind : uint8_t {
  kDispatch,
  kCopy,
  kCounter,
  kSample,
  kApiCall,
  kMemory
};
inline constexpr size_t kRecordKinds = 6;

template <typename T>
class PerRecordKind {
 public:
  T& operator[](RecordKind kind) { return values_[static_cast<size_t>(kind)]; }
  const T& operator[](RecordKind kind) const {
    return values_[static_cast<size_t>(kind)];
  }

 private:
  std::array<T, kRecordKinds> values_ = {};
};

// Records of one kind that were written, or lost because they could not be written. For
// counters and samples it counts operations, each with all of its values.
struct DeliveryCount {
  uint64_t delivered = 0;
  uint64_t dropped = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_RECORD_COUNTS_H_
