// Counter values to and from the columns of v1::CounterBatch.
#ifndef ROCATTACH_USERSPACE_STREAM_COUNTER_BATCH_H_
#define ROCATTACH_USERSPACE_STREAM_COUNTER_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "userspace/abi/records.h"
#include "userspace/stream/packed_column.h"
#include "userspace/stream/session_records.h"
#include "userspace/stream/shape_table.h"
#include "userspace/stream/whole_values.h"

namespace rocattach {

// Like DispatchBatchEncoder, for counter values. Works on whole operations: what a
// session counts is the same for most of them, so what they have in common is compared,
// and only values are written for each.
class CounterBatchEncoder {
 public:
  explicit CounterBatchEncoder(size_t batch_bytes) : batch_bytes_(batch_bytes) {}

  // Takes operations from the front until the batch is full, and removes their values
  // from *values; returns how many.
  size_t AppendOperations(absl::Span<const CounterOperation> operations,
                          absl::Span<const rocattach_counter_value>* values);

  // The same for records of any kind; records of one operation are adjacent. Returns
  // how many records. An operation with more than 4096 values is split.
  size_t Append(absl::Span<const CounterRecord> records);

  bool full() const;
  size_t count() const { return count_; }
  size_t operations() const { return operations_; }
  size_t bytes() const;

  // Replaces *out with the message and starts the next batch.
  void EncodeTo(std::string* out);

 private:
  // What the records of an operation have in common: session; plan|kernel; pass|agent.
  using Heads = ShapeTable<3>;

  // One record of a pattern; of each there are also the members of ValueStates.
  struct Shape {
    uint32_t list;  // of instances' positions, from 1
    bool whole, whole_instances;
  };
  // What is needed for every value, by shape.
  struct ValueStates {
    std::vector<uint64_t> tag;         // counter|instances, as in memory
    std::vector<double> per_instance;  // 1 / instances; 0 if there are none
    // As they were the last time.
    std::vector<uint64_t> sum, below, above;
  };
  struct Pattern {
    bool whole;  // all of its shapes are
    uint32_t head;
    uint32_t first, count;  // of shapes_
    uint32_t before;        // the one before it with the same head, or kNone
  };
  static constexpr uint32_t kNone = ~0u;

  using Values = absl::Span<const rocattach_counter_value>;
  // `records`: empty, or those that the values are of, if any has instances.
  void AppendOne(const CounterOperation& operation, Values values,
                 absl::Span<const CounterRecord> records);
  // Fills columns_; false if the values do not fit the pattern, or might
  // not.
  bool TakeQuickly(const Pattern& pattern, Values values);
  void TakeNumbers(const Pattern& pattern, Values values);
  // Appends what is in columns_.
  void AppendValues(const Pattern& pattern);
  void AppendTimes(const CounterOperation& operation);
  void AppendInstances(const Pattern& pattern, absl::Span<const CounterRecord> records);
  uint32_t HeadOf(const CounterOperation& operation);
  uint32_t PatternOf(uint32_t head, Values values,
                     absl::Span<const CounterRecord> records);
  bool Fits(const Pattern& pattern, Values values) const;
  bool FitsInstances(const Pattern& pattern, absl::Span<const CounterRecord> records);
  void AddShape(const Shape& shape, const rocattach_counter_value& value);
  bool HasRoom(size_t values, size_t instances);
  // Room for all there is of them, except instances and times.
  void Reserve(size_t operations, size_t values);
  void AppendRun(absl::Span<const CounterRecord> records);
  // The number of the list of the record's instances; 0: it has none.
  uint32_t ListOf(const CounterRecord& record);
  void AppendLists(std::string* out) const;
  void AppendShapes(std::string* out) const;
  void Clear();

  size_t batch_bytes_;
  // Records; operations as the caller counts them, and as they are in the columns.
  size_t count_ = 0, operations_ = 0, rows_ = 0;
  bool no_room_ = false;    // the next operation would not fit
  bool has_times_ = false;  // else their columns are zeros, and have not been written
  uint64_t previous_operation_ = 0, previous_begin_ = 0;
  Heads heads_;
  CounterOperation last_operation_;  // whose head is last_head_, unless that is kNone
  uint32_t last_head_ = kNone;
  std::vector<uint32_t> pattern_of_head_;  // the last one
  std::vector<Pattern> patterns_;
  std::vector<Shape> shapes_;  // of all patterns
  ValueStates states_;
  std::map<std::vector<uint64_t>, uint32_t> lists_;    // positions: number
  std::vector<uint64_t> list_;                         // kept so that ListOf() is quick
  std::vector<std::vector<uint64_t>> last_instances_;  // by shape
  std::vector<rocattach_counter_value> values_;        // of Append()'s records
  // Of the operation's values: three columns, with room for one more value each.
  std::vector<uint64_t> numbers_;
  ValueColumns columns_ = {nullptr, 0};
  size_t instances_ = 0;
  PackedColumn pattern_, operation_, begin_, duration_, sum_, below_, above_, instance_;
};

// Decodes a batch, appending to *records. On error *records is as it was.
absl::Status DecodeCounterBatch(absl::string_view payload,
                                std::vector<CounterRecord>* records);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_COUNTER_BATCH_H_
