// Converts copy records to and from the columns of v1::CopyBatch.
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
#include "userspace/stream/batch_encoder.h"

namespace rocattach {

// Like DispatchBatchEncoder, for copies.
// A shape's key: flags|src|dst|direction, engine|tid, HIP stream.
class CopyBatchEncoder : public BatchEncoder<3, 8> {
 public:
  explicit CopyBatchEncoder(size_t batch_bytes);

  // Takes records from the front until the batch is full; returns the number taken.
  size_t Append(absl::Span<const rocattach_copy> records);
  // Replaces *out with the message and starts the next batch.
  void EncodeTo(std::string* out);

 private:
  // In the order in which they are written.
  enum { kShape, kCorrelation, kEnqueue, kStart, kDuration, kBytes, kSrc, kDst };

  void AppendOne(const rocattach_copy& record);

  uint64_t first_start_ns_ = 0, last_end_ns_ = 0;
  std::array<SlotState, kBatchSlots> slots_ = {};
};

// Decodes a batch, appending to *records. On error *records is unchanged.
absl::Status DecodeCopyBatch(absl::string_view payload,
                             std::vector<rocattach_copy>* records);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_COPY_BATCH_H_
