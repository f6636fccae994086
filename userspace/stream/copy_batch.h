// Copy records to and from the columns of v1::CopyBatch.
#ifndef ROCATTACH_USERSPACE_STREAM_COPY_BATCH_H_
#define ROCATTACH_USERSPACE_STREAM_COPY_BATCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/stream/dispatch_batch.h"
#include "userspace/stream/packed_column.h"
#include "userspace/stream/shape_table.h"

namespace rocattach {

// Like DispatchBatchEncoder, for copies.
class CopyBatchEncoder {
 public:
  explicit CopyBatchEncoder(size_t batch_bytes) : batch_bytes_(batch_bytes) {}

  // Takes records from the front until the batch is full; returns how many.
  size_t Append(absl::Span<const rocattach_copy> records);

  bool full() const;
  size_t count() const { return count_; }
  // The number of operations: one for each record.
  size_t operations() const { return count_; }
  size_t bytes() const;

  // Replaces *out with the message and starts the next batch.
  void EncodeTo(std::string* out);

 private:
  // flags|src|dst|direction, engine|tid, HIP stream
  using Shapes = ShapeTable<3>;

  void AppendOne(const rocattach_copy& record);
  void Clear();

  size_t batch_bytes_;
  size_t count_ = 0;
  uint64_t first_start_ns_ = 0, last_end_ns_ = 0;
  uint64_t previous_correlation_ = 0, previous_enqueue_ = 0, previous_bytes_ = 0;
  uint64_t previous_src_ = 0, previous_dst_ = 0;
  std::array<SlotState, kBatchSlots> slots_ = {};
  Shapes shapes_;
  PackedColumn shape_, correlation_, enqueue_, start_, duration_;
  PackedColumn bytes_, src_, dst_;
};

// Decodes a batch, appending to *records. On error *records is as it was.
absl::Status DecodeCopyBatch(absl::string_view payload,
                             std::vector<rocattach_copy>* records);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_COPY_BATCH_H_
