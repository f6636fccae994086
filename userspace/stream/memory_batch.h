// Allocations of memory to and from the columns of v1::MemoryBatch.
#ifndef ROCATTACH_USERSPACE_STREAM_MEMORY_BATCH_H_
#define ROCATTACH_USERSPACE_STREAM_MEMORY_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "userspace/stream/packed_column.h"
#include "userspace/stream/session_records.h"
#include "userspace/stream/shape_table.h"

namespace rocattach {

// Like DispatchBatchEncoder, for memory that is allocated and freed.
class MemoryBatchEncoder {
 public:
  explicit MemoryBatchEncoder(size_t batch_bytes) : batch_bytes_(batch_bytes) {}

  // Takes records from the front until the batch is full; returns how many.
  size_t Append(absl::Span<const MemoryRecord> records);

  bool full() const;
  size_t count() const { return count_; }
  // The number of operations: one for each record.
  size_t operations() const { return count_; }
  size_t bytes() const;

  // Replaces *out with the message and starts the next batch.
  void EncodeTo(std::string* out);

 private:
  using Shapes = ShapeTable<3>;  // session; queue|tid; operation|agent|scratch flags

  void AppendOne(const MemoryRecord& record);
  void AppendShapes(std::string* out) const;
  void Clear();

  size_t batch_bytes_;
  size_t count_ = 0;
  uint64_t previous_correlation_ = 0, previous_begin_ = 0, previous_address_ = 0;
  Shapes shapes_;
  PackedColumn shape_, correlation_, begin_, duration_, address_, size_;
};

// Decodes a batch, appending to *records. On error *records is as it was.
absl::Status DecodeMemoryBatch(absl::string_view payload,
                               std::vector<MemoryRecord>* records);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_MEMORY_BATCH_H_
