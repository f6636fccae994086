// Dispatch records to and from the columns of v1::DispatchBatch.
#ifndef ROCATTACH_USERSPACE_STREAM_DISPATCH_BATCH_H_
#define ROCATTACH_USERSPACE_STREAM_DISPATCH_BATCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/stream/packed_column.h"
#include "userspace/stream/shape_table.h"

namespace rocattach {

// State of a queue that reader and writer both keep within a batch.
struct SlotState {
  uint64_t last_end = 0;
  uint64_t last_packet = 0;
};
inline constexpr size_t kBatchSlots = 64;

// Collects records in column form. The output is a valid v1::DispatchBatch.
class DispatchBatchEncoder {
 public:
  // A batch is full at this size, or at kMaxBatchRecords.
  explicit DispatchBatchEncoder(size_t batch_bytes) : batch_bytes_(batch_bytes) {}

  // Takes records from the front until the batch is full; returns how many.
  size_t Append(absl::Span<const rocattach_dispatch> records);

  bool full() const;
  size_t count() const { return count_; }
  // The number of operations: one for each record.
  size_t operations() const { return count_; }
  // Approximately what EncodeTo will write.
  size_t bytes() const;

  // Replaces *out with the message and starts the next batch.
  void EncodeTo(std::string* out);

 private:
  // kind|flags|kernel, queue|tid, grid x|y, grid z|workgroup x|y, workgroup
  // z|agent|lds, scratch: the words of rocattach_dispatch as in memory. With the last
  // one, the HIP stream.
  using Shapes = ShapeTable<6>;

  // Column by column, since most of them are alike for many records.
  void AppendShapes(absl::Span<const rocattach_dispatch> records);
  void AppendNumbers(absl::Span<const rocattach_dispatch> records);
  void AppendOfQueues(absl::Span<const rocattach_dispatch> records);
  void Clear();

  size_t batch_bytes_;
  size_t count_ = 0;
  uint64_t first_start_ns_ = 0, last_end_ns_ = 0;
  uint64_t previous_correlation_ = 0, previous_enqueue_ = 0, previous_dispatch_ = 0;
  bool has_dispatch_ids_ = false;
  std::array<SlotState, kBatchSlots> slots_ = {};
  Shapes shapes_;
  PackedColumn shape_, correlation_, enqueue_, start_, duration_, packet_, dispatch_;
};

// Decodes a batch, appending to *records. On error *records is as it was. Fields that
// the stream does not carry (pad, reserved) are 0.
absl::Status DecodeDispatchBatch(absl::string_view payload,
                                 std::vector<rocattach_dispatch>* records);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_DISPATCH_BATCH_H_
