// Converts dispatch records to and from the columns of v1::DispatchBatch.
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
#include "userspace/stream/batch_encoder.h"

namespace rocattach {

// Collects records in column form. The output is a valid v1::DispatchBatch. The words of
// a shape's key are those of rocattach_dispatch as in memory: kind|flags|kernel,
// queue|tid, grid x|y, grid z|workgroup x|y, workgroup z|agent|lds, scratch. The last
// word also holds the HIP stream.
class DispatchBatchEncoder : public BatchEncoder<6, 6> {
 public:
  // `batch_bytes`: size at which a batch is full.
  explicit DispatchBatchEncoder(size_t batch_bytes);

  // Takes records from the front until the batch is full; returns the number taken.
  size_t Append(absl::Span<const rocattach_dispatch> records);
  // Replaces *out with the message and starts the next batch.
  void EncodeTo(std::string* out);

 private:
  // In the order in which they are written.
  enum { kShape, kCorrelation, kEnqueue, kStart, kDuration, kPacket };

  // These work column by column, because most columns vary little over many records.
  void AppendShapes(absl::Span<const rocattach_dispatch> records);
  void AppendNumbers(absl::Span<const rocattach_dispatch> records);
  void AppendOfQueues(absl::Span<const rocattach_dispatch> records);
  void Clear();

  uint64_t first_start_ns_ = 0, last_end_ns_ = 0;
  uint64_t previous_correlation_ = 0, previous_enqueue_ = 0, previous_dispatch_ = 0;
  bool has_dispatch_ids_ = false;
  std::array<SlotState, kBatchSlots> slots_ = {};
  PackedColumn dispatch_;  // only written if any record has an id
};

// Decodes a batch, appending to *records. On error *records is unchanged. Fields that
// the stream does not carry (pad, reserved) are 0.
absl::Status DecodeDispatchBatch(absl::string_view payload,
                                 std::vector<rocattach_dispatch>* records);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_DISPATCH_BATCH_H_
