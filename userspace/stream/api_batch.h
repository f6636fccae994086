// Converts API calls to and from the columns of v1::ApiCallBatch.
#ifndef ROCATTACH_USERSPACE_STREAM_API_BATCH_H_
#define ROCATTACH_USERSPACE_STREAM_API_BATCH_H_

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

// Like DispatchBatchEncoder, for API calls. Texts must already be valid UTF-8.
// A shape's key: session; function|domain|flags|tid.
class ApiBatchEncoder : public BatchEncoder<2, 5> {
 public:
  explicit ApiBatchEncoder(size_t batch_bytes);

  // Takes records from the front until the batch is full; returns the number taken.
  size_t Append(absl::Span<const ApiCallRecord> records);
  // Replaces *out with the message and starts the next batch.
  void EncodeTo(std::string* out);

 private:
  // In the order in which they are written.
  enum { kShape, kCorrelation, kBegin, kDuration, kAncestor };

  void AppendOne(const ApiCallRecord& record);

  std::string texts_;  // the text fields, serialised
};

// Decodes a batch, appending to *records. On error *records is unchanged.
absl::Status DecodeApiBatch(absl::string_view payload,
                            std::vector<ApiCallRecord>* records);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_API_BATCH_H_
