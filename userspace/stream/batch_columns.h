// What batches have in common: the prediction of start times, the table of shapes, the
// bounds of columns.
#ifndef ROCATTACH_USERSPACE_STREAM_BATCH_COLUMNS_H_
#define ROCATTACH_USERSPACE_STREAM_BATCH_COLUMNS_H_

#include <google/protobuf/repeated_field.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "userspace/stream/dispatch_batch.h"
#include "userspace/stream/frame.h"
#include "userspace/stream/packed_column.h"

namespace rocattach {

// Work on a busy queue starts when the work before it ends, on an idle queue when it is
// submitted: whichever is later. Records without times predict 0, which is their value.
inline uint64_t PredictStart(uint32_t flags, uint64_t enqueue_ns,
                             const SlotState& slot) {
  if (flags & ROCATTACH_DISPATCH_UNTIMED) return 0;
  return std::max(enqueue_ns, slot.last_end);
}

// Widens a batch's time range by one record, if that has times.
inline void NoteTimes(uint64_t start_ns, uint64_t end_ns, uint64_t* first_start_ns,
                      uint64_t* last_end_ns) {
  if (start_ns != 0 && (*first_start_ns == 0 || start_ns < *first_start_ns)) {
    *first_start_ns = start_ns;
  }
  *last_end_ns = std::max(*last_end_ns, end_ns);
}

// The source of a column of the shape table: field number in the batch's message, word
// of the key, shift and width in bits (1 to 64).
struct ShapeColumn {
  uint32_t field;
  size_t word;
  unsigned shift;
  unsigned bits;
};

// Writes the shape table, one column after another.
template <size_t kColumns, typename Key>
void AppendShapeColumns(const ShapeColumn (&columns)[kColumns],
                        const std::vector<Key>& keys, std::string* out) {
  PackedColumn packed;
  for (const ShapeColumn& column : columns) {
    packed.Clear();
    packed.Reserve(keys.size());
    for (const Key& key : keys) {
      packed.Put((key[column.word] >> column.shift) &
                 (~uint64_t{0} >> (64 - column.bits)));
    }
    packed.AppendTo(column.field, out);
  }
}

// Entry `i` of a column; an absent column is all zeros. The size has been checked.
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
// request.
inline absl::Status CheckCounts(uint64_t count, uint64_t shapes) {
  if (count > kMaxBatchRecords) {
    return absl::DataLossError(absl::StrCat("batch claims ", count, " records"));
  }
  if (shapes > count) {
    return absl::DataLossError(
        absl::StrCat("batch claims ", shapes, " shapes for ", count, " records"));
  }
  return absl::OkStatus();
}

// Checks that columns are absent or have `rows` entries; remembers the first that is
// not.
class ColumnChecker {
 public:
  explicit ColumnChecker(uint64_t rows) : rows_(rows) {}

  template <typename Column>
  void Check(const char* name, const Column& column) {
    if (column.empty() || static_cast<uint64_t>(column.size()) == rows_) return;
    if (!status_.ok()) return;
    status_ = absl::DataLossError(absl::StrCat("column ", name, " has ", column.size(),
                                               " entries for ", rows_, " rows"));
  }

  absl::Status status() const { return status_; }

 private:
  uint64_t rows_;
  absl::Status status_;
};

// Columns that batches of calls have in common: those of sessions, threads, and times.
template <typename Batch>
void CheckCallShapes(const Batch& batch, ColumnChecker* shapes) {
  shapes->Check("shape_session", batch.shape_session());
  shapes->Check("shape_tid", batch.shape_tid());
}
template <typename Batch>
void CheckCallRecords(const Batch& batch, ColumnChecker* records) {
  records->Check("shape", batch.shape());
  records->Check("correlation", batch.correlation());
  records->Check("begin", batch.begin());
  records->Check("duration", batch.duration());
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_BATCH_COLUMNS_H_
