// Code that encoders and decoders of batches share: the prediction of start times, the
// checks of a batch that was read, its entries.
#ifndef ROCATTACH_USERSPACE_STREAM_BATCH_COLUMNS_H_
#define ROCATTACH_USERSPACE_STREAM_BATCH_COLUMNS_H_

#include <google/protobuf/message.h>
#include <google/protobuf/repeated_field.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "userspace/abi/records.h"
#include "userspace/base/status_macros.h"
#include "userspace/stream/batch_encoder.h"
#include "userspace/stream/frame.h"

namespace rocattach {

// Predicts a start time: the submission, or the end of the previous work on the queue
// if that is later. For records without times it is 0, which is also their start time.
inline uint64_t PredictStart(uint32_t flags, uint64_t enqueue_ns,
                             const SlotState& slot) {
  if (flags & ROCATTACH_DISPATCH_UNTIMED) return 0;
  return std::max(enqueue_ns, slot.last_end);
}

// Extends a batch's time range to include one record, if the record has times.
inline void ExtendTimeRange(uint64_t start_ns, uint64_t end_ns,
                            uint64_t* first_start_ns, uint64_t* last_end_ns) {
  if (start_ns != 0 && (*first_start_ns == 0 || start_ns < *first_start_ns)) {
    *first_start_ns = start_ns;
  }
  *last_end_ns = std::max(*last_end_ns, end_ns);
}

// Entry `i` of a column; an absent column is all zeros. The size was checked before.
template <typename T>
T At(const google::protobuf::RepeatedField<T>& column, int i) {
  return column.empty() ? T{} : column.Get(i);
}

// Entry `i` of a signed column as a difference modulo 2^64.
inline uint64_t Residual(const google::protobuf::RepeatedField<int64_t>& column,
                         int i) {
  return static_cast<uint64_t>(At(column, i));
}

// An absent column takes no bytes, so the counts must bound the memory that a batch can
// request. DATA_LOSS otherwise.
absl::Status CheckCounts(uint64_t count, uint64_t shapes);

// The number of entries that a column must have if it is there, by its name; nullopt: any.
using RowsFunction = absl::FunctionRef<std::optional<uint64_t>(absl::string_view name)>;

// Checks each column of a batch. DATA_LOSS names the first that is wrong.
absl::Status CheckColumns(const google::protobuf::Message& batch, RowsFunction rows);

// The same for batches whose columns have an entry for each shape, if their names begin
// with "shape_", or else for each record. Checks the counts, too.
template <typename Batch>
absl::Status CheckBatch(const Batch& batch) {
  RETURN_IF_ERROR(CheckCounts(batch.count(), batch.shapes()));
  return CheckColumns(batch, [&](absl::string_view name) {
    return std::optional<uint64_t>(absl::StartsWith(name, "shape_") ? batch.shapes()
                                                                    : batch.count());
  });
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_BATCH_COLUMNS_H_
