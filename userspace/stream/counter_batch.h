// Converts counter values to and from the columns of v1::CounterBatch.
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
#include "userspace/stream/batch_encoder.h"
#include "userspace/stream/packed_column.h"
#include "userspace/stream/session_records.h"
#include "userspace/stream/shape_table.h"

namespace rocattach {

// Like DispatchBatchEncoder, for counter values. Works on whole operations: a session
// counts the same for most of them, so their common part is only compared, and just the
// values are written for each operation.
class CounterBatchEncoder {
 public:
  explicit CounterBatchEncoder(size_t batch_bytes);

  // Takes operations from the front until the batch is full, and removes their values
  // from *values; returns the number of operations taken.
  size_t AppendOperations(absl::Span<const CounterOperation> operations,
                          absl::Span<const rocattach_counter_value>* values);

  // The same for any records; those of one operation must be adjacent. Returns the
  // number of records taken. An operation with more than 4096 values is split.
  size_t Append(absl::Span<const CounterRecord> records);

  bool full() const;
  size_t count() const { return count_; }
  size_t operations() const { return operations_; }
  size_t bytes() const;

  // Replaces *out with the message and starts the next batch.
  void EncodeTo(std::string* out);

 private:
  // In the order in which they are written.
  enum { kPattern, kOperation, kBegin, kDuration, kSum, kBelow, kAbove, kInstance };
  // The fields that an operation's records share: session; plan|kernel; pass|agent.
  using Heads = ShapeTable<3>;

  // One record of a pattern. ValueStates also has an entry for each shape.
  struct Shape {
    uint32_t list;  // number of its list of instance positions, from 1; 0: none
    bool whole, whole_instances;
  };
  // State that is needed for every value, indexed by shape.
  struct ValueStates {
    std::vector<uint64_t> tag;         // counter|instances, as in memory
    std::vector<double> per_instance;  // 1 / instances; 0 if there are none
    // The numbers of the shape's previous value.
    std::vector<uint64_t> sum, below, above;
  };
  struct Pattern {
    uint32_t head;
    uint32_t first, count;  // its range in shapes_
    uint32_t before;        // the previous pattern with the same head, or kNone
  };
  static constexpr uint32_t kNone = ~0u;

  using Values = absl::Span<const rocattach_counter_value>;
  // `records`: the records of the values if any of them has instances, otherwise empty.
  void AppendOne(const CounterOperation& operation, Values values,
                 absl::Span<const CounterRecord> records);
  // `values` must fit the pattern.
  void AppendValues(const Pattern& pattern, Values values);
  void AppendTimes(const CounterOperation& operation);
  void AppendInstances(const Pattern& pattern, absl::Span<const CounterRecord> records);
  uint32_t HeadOf(const CounterOperation& operation);
  uint32_t PatternOf(uint32_t head, Values values,
                     absl::Span<const CounterRecord> records);
  bool Fits(const Pattern& pattern, Values values) const;
  bool FitsInstances(const Pattern& pattern, absl::Span<const CounterRecord> records);
  void AddShape(const Shape& shape, const rocattach_counter_value& value);
  bool HasRoom(size_t values, size_t instances);
  // Reserves room in all columns except those of instances and times.
  void Reserve(size_t operations, size_t values);
  void AppendRun(absl::Span<const CounterRecord> records);
  // The number of the record's list of instance positions; 0: it has no instances.
  uint32_t ListOf(const CounterRecord& record);
  void AppendLists(std::string* out) const;
  void AppendShapes(std::string* out) const;
  void Clear();

  size_t batch_bytes_;
  // Counts: records, operations as the caller counts them, operations in the columns.
  size_t count_ = 0, operations_ = 0, rows_ = 0;
  bool no_room_ = false;    // the next operation would not fit
  bool has_times_ = false;  // false: time columns are zeros and not yet written
  Heads heads_;
  CounterOperation last_operation_;  // its head is last_head_, unless that is kNone
  uint32_t last_head_ = kNone;
  std::vector<uint32_t> pattern_of_head_;  // the last pattern of each head
  std::vector<Pattern> patterns_;
  std::vector<Shape> shapes_;  // of all patterns
  ValueStates states_;
  std::map<std::vector<uint64_t>, uint32_t> lists_;    // positions -> list number
  std::vector<uint64_t> list_;                         // reused by ListOf() for speed
  std::vector<std::vector<uint64_t>> last_instances_;  // indexed by shape
  std::vector<rocattach_counter_value> values_;        // of Append()'s records
  struct {
    std::vector<uint64_t> sum, below, above;
  } numbers_;  // of the values of one operation
  size_t instances_ = 0;
  BatchColumns<8> columns_;
};

// Decodes a batch, appending to *records. On error *records is unchanged.
absl::Status DecodeCounterBatch(absl::string_view payload,
                                std::vector<CounterRecord>* records);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_COUNTER_BATCH_H_
