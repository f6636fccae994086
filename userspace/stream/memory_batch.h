// Converts memory allocations to and from the columns of v1::MemoryBatch.
#ifndef ROCATTACH_USERSPACE_STREAM_MEMORY_BATCH_H_
#define ROCATTACH_USERSPACE_STREAM_MEMORY_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "userspace/stream/batch_encoder.h"
#include "userspace/stream/session_records.h"

namespace rocattach {

// Like DispatchBatchEncoder, for memory that is allocated and freed.
// A shape's key: session; queue|tid; operation|agent|scratch flags.
class MemoryBatchEncoder : public BatchEncoder<3, 6> {
 public:
  explicit MemoryBatchEncoder(size_t batch_bytes);

  // Takes records from the front until the batch is full; returns the number taken.
  size_t Append(absl::Span<const MemoryRecord> records);
  // Replaces *out with the message and starts the next batch.
  void EncodeTo(std::string* out);

 private:
  // In the order in which they are written.
  enum { kShape, kCorrelation, kBegin, kDuration, kAddress, kBytes };

  void AppendOne(const MemoryRecord& record);
};

// Decodes a batch, appending to *records. On error *records is unchanged.
absl::Status DecodeMemoryBatch(absl::string_view payload,
                               std::vector<MemoryRecord>* records);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_MEMORY_BATCH_H_
