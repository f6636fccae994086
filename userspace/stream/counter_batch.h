// Counter values to and from the columns of v1::CounterBatch.
#ifndef ROCATTACH_USERSPACE_STREAM_COUNTER_BATCH_H_
#define ROCATTACH_USERSPACE_STREAM_COUNTER_BATCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "userspace/stream/packed_column.h"
#include "userspace/stream/session_records.h"
#include "userspace/stream/shape_table.h"

namespace rocattach {

// The last value of a shape, as the bits that differences are taken of.
using CounterValueBits = std::array<uint64_t, 3>;

// Like DispatchBatchEncoder, for counter values.
class CounterBatchEncoder {
 public:
  explicit CounterBatchEncoder(size_t batch_bytes) : batch_bytes_(batch_bytes) {}

  // Takes whole operations from the front until the batch is full; returns how many
  // records. An operation with more than 4096 values is split.
  size_t Append(absl::Span<const CounterRecord> records);

  bool full() const;
  size_t count() const { return count_; }
  size_t operations() const { return operations_; }
  size_t bytes() const;

  // Replaces *out with the message and starts the next batch.
  void EncodeTo(std::string* out);

 private:
  // session; plan|kernel; counter|pass|agent|flags; instances|list.
  using Shapes = ShapeTable<4>;

  // A value to be put into the columns.
  struct Entry {
    uint32_t shape;
    CounterValueBits bits;
  };

  void AppendOperation(absl::Span<const CounterRecord> records);
  void AppendInstances(absl::Span<const CounterRecord> records);
  // The number of the list of the record's instances; 0: it has none.
  uint32_t ListOf(const CounterRecord& record);
  void AppendLists(std::string* out) const;
  void AppendTimes(absl::Span<const CounterRecord> records);
  void AppendShapes(std::string* out) const;
  void Clear();

  size_t batch_bytes_;
  size_t count_ = 0, operations_ = 0;
  bool no_room_ = false;  // the next operation would not fit
  uint64_t previous_operation_ = 0, previous_begin_ = 0;
  Shapes shapes_;
  std::vector<CounterValueBits> last_;  // by shape
  std::vector<Entry> entries_;          // of the operation that is being appended
  std::map<std::vector<uint64_t>, uint32_t> lists_;    // positions: number
  std::vector<uint64_t> list_;                         // kept so that ListOf() is quick
  std::vector<std::vector<uint64_t>> last_instances_;  // by shape
  size_t instances_ = 0;
  PackedColumn instance_;
  PackedColumn shape_, operation_, begin_, duration_, sum_, minimum_, maximum_;
};

// Decodes a batch, appending to *records. On error *records is as it was.
absl::Status DecodeCounterBatch(absl::string_view payload,
                                std::vector<CounterRecord>* records);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_COUNTER_BATCH_H_
