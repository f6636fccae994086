#include "userspace/stream/counter_batch.h"

#include <algorithm>
#include <cstddef>

#include "schemas/records.pb.h"
#include "userspace/stream/counter_numbers.h"
#include "userspace/stream/frame.h"

namespace rocattach {
namespace {

// Maximum number of values of one operation in a batch, so that a payload stays far
// below kMaxPayloadBytes.
constexpr size_t kMaxOperationRecords = 4096;
// Number of patterns of one head that are compared before a new one is made.
constexpr int kMaxLooks = 8;

uint64_t TagOf(const rocattach_counter_value& value) {
  return value.counter | uint64_t{value.instances} << 32;
}

// Replaces *numbers by their differences from `last`, in zigzag form, and `last` by the
// original numbers. Returns all differences, ORed.
uint64_t ToDifferences(std::vector<uint64_t>* numbers, uint64_t* last) {
  uint64_t any = 0;
  for (size_t i = 0; i < numbers->size(); ++i) {
    const uint64_t number = (*numbers)[i];
    any |= (*numbers)[i] = ZigZag(number - last[i]);
    last[i] = number;
  }
  return any;
}

bool AllWhole(const rocattach_counter_value& value) {
  return IsWhole(value.sum) && IsWhole(value.minimum) && IsWhole(value.maximum);
}

bool AllWhole(const std::vector<CounterInstance>& instances) {
  for (const CounterInstance& instance : instances) {
    if (!IsWhole(instance.value)) return false;
  }
  return true;
}

CounterOperation OperationOf(const CounterRecord& record, size_t values) {
  CounterOperation operation;
  operation.session = record.session;
  operation.operation = record.operation;
  operation.plan = record.plan;
  operation.kernel_id = record.kernel_id;
  operation.pass = record.pass;
  operation.agent_id = record.agent_id;
  operation.values = static_cast<uint32_t>(values);
  operation.begin_ns = record.begin_ns;
  operation.end_ns = record.end_ns;
  return operation;
}

// True if both can be records of one CounterOperation.
bool SameOperation(const CounterRecord& a, const CounterRecord& b) {
  return a.operation == b.operation && a.session == b.session && a.plan == b.plan &&
         a.kernel_id == b.kernel_id && a.pass == b.pass && a.agent_id == b.agent_id &&
         a.begin_ns == b.begin_ns && a.end_ns == b.end_ns;
}

}  // namespace

CounterBatchEncoder::CounterBatchEncoder(size_t batch_bytes)
    : batch_bytes_(batch_bytes),
      columns_({v1::CounterBatch::kPatternFieldNumber,
                v1::CounterBatch::kOperationChangeFieldNumber,
                v1::CounterBatch::kBeginFieldNumber,
                v1::CounterBatch::kDurationFieldNumber,
                v1::CounterBatch::kSumChangeFieldNumber,
                v1::CounterBatch::kBelowChangeFieldNumber,
                v1::CounterBatch::kAboveChangeFieldNumber,
                v1::CounterBatch::kInstanceChangeFieldNumber}) {}

size_t CounterBatchEncoder::bytes() const {
  return columns_.bytes() + shapes_.size() * kShapeBytes;
}

bool CounterBatchEncoder::full() const {
  return no_room_ || count_ >= kMaxBatchRecords || bytes() >= batch_bytes_;
}

bool CounterBatchEncoder::HasRoom(size_t values, size_t instances) {
  if (count_ + values > kMaxBatchRecords ||
      (count_ > 0 && instances_ + instances > kMaxBatchInstances)) {
    no_room_ = true;  // the whole operation goes into the next batch
  }
  return !no_room_;
}

size_t CounterBatchEncoder::AppendOperations(
    absl::Span<const CounterOperation> operations,
    absl::Span<const rocattach_counter_value>* values) {
  // Number of operations between two checks of the size.
  constexpr size_t kBlock = 16;
  size_t taken = 0;
  while (taken < operations.size() && !full()) {
    const size_t most = std::min(taken + kBlock, operations.size());
    size_t end = taken, of_block = 0;
    while (end < most && HasRoom(of_block + operations[end].values, 0)) {
      of_block += operations[end++].values;
    }
    Reserve(end - taken, of_block);
    operations_ += end - taken;
    for (; taken < end; ++taken) {
      const CounterOperation& operation = operations[taken];
      AppendOne(operation, values->first(operation.values), {});
      values->remove_prefix(operation.values);
    }
  }
  return taken;
}

void CounterBatchEncoder::Reserve(size_t operations, size_t values) {
  for (auto column : {kPattern, kOperation}) columns_[column].Reserve(operations);
  for (auto column : {kSum, kBelow, kAbove}) columns_[column].Reserve(values);
}

size_t CounterBatchEncoder::Append(absl::Span<const CounterRecord> records) {
  size_t taken = 0;
  while (taken < records.size() && !full()) {
    size_t end = taken, instances = 0;
    do {
      if (records[end].each != nullptr) instances += records[end].each->size();
      ++end;
    } while (end < records.size() && end - taken < kMaxOperationRecords &&
             records[end].operation == records[taken].operation);
    if (!HasRoom(end - taken, instances)) return taken;
    instances_ += instances;
    AppendRun(records.subspan(taken, end - taken));
    ++operations_;
    taken = end;
  }
  return taken;
}

// Appends records of one operation; their other fields may differ.
void CounterBatchEncoder::AppendRun(absl::Span<const CounterRecord> records) {
  while (!records.empty()) {
    values_.clear();
    bool instances = false;
    for (const CounterRecord& record : records) {
      if (!SameOperation(records[0], record)) break;
      instances |= record.each != nullptr;
      values_.push_back({record.counter, 0, record.instances, record.sum,
                         record.minimum, record.maximum});
    }
    const size_t count = values_.size();
    const CounterOperation operation = OperationOf(records[0], count);
    Reserve(1, count);
    AppendOne(operation, values_,
              instances ? records.first(count) : absl::Span<const CounterRecord>());
    records.remove_prefix(count);
  }
}

void CounterBatchEncoder::AppendOne(const CounterOperation& operation, Values values,
                                    absl::Span<const CounterRecord> records) {
  if (values.empty()) return;
  const uint32_t head = HeadOf(operation);
  uint32_t index = pattern_of_head_[head];
  // Most batches have no instances, and then none of their shapes has a list.
  const bool fits = index != kNone && records.empty() && lists_.empty() &&
                    Fits(patterns_[index], values);
  if (!fits) index = PatternOf(head, values, records);
  columns_[kPattern].Put(index);
  columns_[kOperation].PutChange(operation.operation);
  // The times of dispatches are in the dispatch records, and 0 here.
  if (has_times_ || (operation.begin_ns | operation.end_ns) != 0)
    AppendTimes(operation);
  AppendValues(patterns_[index], values);
  if (!records.empty()) AppendInstances(patterns_[index], records);
  count_ += values.size();
  ++rows_;
}

void CounterBatchEncoder::AppendTimes(const CounterOperation& operation) {
  for (auto column : {kBegin, kDuration}) {
    const size_t before = has_times_ ? 0 : rows_;
    columns_[column].Reserve(before + 1);
    columns_[column].PutZeros(before);
  }
  has_times_ = true;
  columns_[kBegin].PutChange(operation.begin_ns);
  columns_[kDuration].Put(operation.end_ns - operation.begin_ns);
}

// This runs for every value of every counted dispatch, like Fits().
void CounterBatchEncoder::AppendValues(const Pattern& pattern, Values values) {
  for (std::vector<uint64_t>* column :
       {&numbers_.sum, &numbers_.below, &numbers_.above})
    column->resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const rocattach_counter_value& value = values[i];
    const bool whole = shapes_[pattern.first + i].whole;
    const uint64_t middle =
        MiddleOf(value.sum, states_.per_instance[pattern.first + i], whole);
    numbers_.sum[i] = NumberOf(value.sum, whole);
    numbers_.below[i] = middle - NumberOf(value.minimum, whole);
    numbers_.above[i] = NumberOf(value.maximum, whole) - middle;
  }
  const auto append = [&](std::vector<uint64_t>* numbers, std::vector<uint64_t>* last,
                          PackedColumn* column) {
    const uint64_t any = ToDifferences(numbers, last->data() + pattern.first);
    column->PutAll(numbers->data(), numbers->size(), any);
  };
  // Minimum and maximum are often the same as before.
  const auto append_few = [&](std::vector<uint64_t>* numbers,
                              std::vector<uint64_t>* last, PackedColumn* column) {
    if (std::equal(numbers->begin(), numbers->end(), last->begin() + pattern.first)) {
      column->PutZeros(numbers->size());
    } else {
      append(numbers, last, column);
    }
  };
  append(&numbers_.sum, &states_.sum, &columns_[kSum]);
  append_few(&numbers_.below, &states_.below, &columns_[kBelow]);
  append_few(&numbers_.above, &states_.above, &columns_[kAbove]);
}

bool CounterBatchEncoder::Fits(const Pattern& pattern, Values values) const {
  if (pattern.count != values.size()) return false;
  for (size_t i = 0; i < values.size(); ++i) {
    if (states_.tag[pattern.first + i] != TagOf(values[i])) return false;
    // A shape that stores bit patterns can hold any value.
    if (shapes_[pattern.first + i].whole && !AllWhole(values[i])) return false;
  }
  return true;
}

bool CounterBatchEncoder::FitsInstances(const Pattern& pattern,
                                        absl::Span<const CounterRecord> records) {
  for (size_t i = 0; i < pattern.count; ++i) {
    const Shape& shape = shapes_[pattern.first + i];
    if (records.empty()) {
      if (shape.list != 0) return false;
      continue;
    }
    if (shape.list != ListOf(records[i])) return false;
    if (shape.whole_instances && !AllWhole(*records[i].each)) return false;
  }
  return true;
}

uint32_t CounterBatchEncoder::HeadOf(const CounterOperation& operation) {
  // Usually it is the same as for the previous dispatch.
  const CounterOperation& last = last_operation_;
  if (last_head_ != kNone && operation.session == last.session &&
      operation.plan == last.plan && operation.kernel_id == last.kernel_id &&
      operation.pass == last.pass && operation.agent_id == last.agent_id) {
    return last_head_;
  }
  const uint32_t head = heads_.Index(
      {operation.session, operation.plan | uint64_t{operation.kernel_id} << 32,
       operation.pass | uint64_t{operation.agent_id} << 16});
  if (head == pattern_of_head_.size()) pattern_of_head_.push_back(kNone);
  last_operation_ = operation;
  last_head_ = head;
  return head;
}

uint32_t CounterBatchEncoder::PatternOf(uint32_t head, Values values,
                                        absl::Span<const CounterRecord> records) {
  uint32_t at = pattern_of_head_[head];
  const uint32_t last = at;
  for (int i = 0; i < kMaxLooks && at != kNone; ++i, at = patterns_[at].before) {
    const Pattern& pattern = patterns_[at];
    if (Fits(pattern, values) && FitsInstances(pattern, records)) return at;
  }
  Pattern pattern = {head, static_cast<uint32_t>(shapes_.size()),
                     static_cast<uint32_t>(values.size()), last};
  // A counter that had fractions is expected to have fractions again. So there are at
  // most N + 1 patterns for the same N counters.
  const bool similar = last != kNone && patterns_[last].count == pattern.count;
  for (size_t i = 0; i < values.size(); ++i) {
    Shape shape = {};
    shape.whole = AllWhole(values[i]);
    if (!records.empty() && records[i].each != nullptr) {
      shape.list = ListOf(records[i]);
      shape.whole_instances = AllWhole(*records[i].each);
    }
    if (similar) {
      const Shape& before = shapes_[patterns_[last].first + i];
      const bool same = states_.tag[patterns_[last].first + i] == TagOf(values[i]);
      if (same) shape.whole = shape.whole && before.whole;
      if (same && before.list == shape.list) {
        shape.whole_instances = shape.whole_instances && before.whole_instances;
      }
    }
    AddShape(shape, values[i]);
  }
  const auto index = static_cast<uint32_t>(patterns_.size());
  patterns_.push_back(pattern);
  return pattern_of_head_[head] = index;
}

void CounterBatchEncoder::AddShape(const Shape& shape,
                                   const rocattach_counter_value& value) {
  shapes_.push_back(shape);
  states_.tag.push_back(TagOf(value));
  states_.per_instance.push_back(PerInstance(value.instances));
  states_.sum.push_back(0);
  states_.below.push_back(0);
  states_.above.push_back(0);
}

void CounterBatchEncoder::AppendInstances(const Pattern& pattern,
                                          absl::Span<const CounterRecord> records) {
  if (last_instances_.size() < shapes_.size()) last_instances_.resize(shapes_.size());
  for (size_t i = 0; i < records.size(); ++i) {
    if (records[i].each == nullptr) continue;
    const std::vector<CounterInstance>& each = *records[i].each;
    const bool whole = shapes_[pattern.first + i].whole_instances;
    std::vector<uint64_t>& last = last_instances_[pattern.first + i];
    last.resize(each.size());
    columns_[kInstance].Reserve(each.size());
    for (size_t k = 0; k < each.size(); ++k) {
      const uint64_t number = NumberOf(each[k].value, whole);
      columns_[kInstance].Put(ZigZag(number - last[k]));
      last[k] = number;
    }
  }
}

uint32_t CounterBatchEncoder::ListOf(const CounterRecord& record) {
  if (record.each == nullptr) return 0;
  list_.clear();
  for (const CounterInstance& instance : *record.each) {
    list_.push_back(instance.position);
  }
  return lists_.try_emplace(list_, lists_.size() + 1).first->second;
}

void CounterBatchEncoder::AppendLists(std::string* out) const {
  std::vector<const std::vector<uint64_t>*> by_number(lists_.size());
  for (const auto& [list, number] : lists_) by_number[number - 1] = &list;
  PackedColumn lengths, positions;
  for (const auto* list : by_number) {
    lengths.Reserve(1);
    lengths.Put(list->size());
    positions.Reserve(list->size());
    for (uint64_t position : *list) positions.Put(position);
  }
  lengths.AppendTo(v1::CounterBatch::kListLengthFieldNumber, out);
  positions.AppendTo(v1::CounterBatch::kListPositionFieldNumber, out);
}

void CounterBatchEncoder::AppendShapes(std::string* out) const {
  using Batch = v1::CounterBatch;
  using Key = std::array<uint64_t, 5>;
  static constexpr ShapeColumn kColumns[] = {
      {Batch::kShapeFlagsFieldNumber, 4, 0, 32},
      {Batch::kShapeSessionFieldNumber, 0, 0, 64},
      {Batch::kShapePlanFieldNumber, 1, 0, 32},
      {Batch::kShapePassFieldNumber, 2, 0, 16},
      {Batch::kShapeCounterFieldNumber, 3, 0, 16},
      {Batch::kShapeAgentIdFieldNumber, 2, 16, 16},
      {Batch::kShapeKernelIdFieldNumber, 1, 32, 32},
      {Batch::kShapeInstancesFieldNumber, 3, 32, 32},
      {Batch::kShapeListFieldNumber, 4, 32, 32},
  };
  std::vector<Key> keys;
  keys.reserve(shapes_.size());
  PackedColumn lengths;
  lengths.Reserve(patterns_.size());
  for (const Pattern& pattern : patterns_) {
    lengths.Put(pattern.count);
    const Heads::Key& head = heads_.keys()[pattern.head];
    for (uint32_t i = pattern.first; i < pattern.first + pattern.count; ++i) {
      const Shape& shape = shapes_[i];
      const uint64_t flags = (shape.whole ? kWholeValues : 0u) |
                             (shape.whole_instances ? kWholeInstances : 0u);
      keys.push_back({head[0], head[1], head[2], states_.tag[i],
                      flags | uint64_t{shape.list} << 32});
    }
  }
  AppendShapeColumns(kColumns, keys, out);
  lengths.AppendTo(Batch::kPatternLengthFieldNumber, out);
}

void CounterBatchEncoder::EncodeTo(std::string* out) {
  using Batch = v1::CounterBatch;
  out->clear();
  AppendField(Batch::kRecordsFieldNumber, count_, out);
  AppendField(Batch::kOperationsFieldNumber, rows_, out);
  AppendField(Batch::kShapesFieldNumber, shapes_.size(), out);
  AppendShapes(out);
  AppendLists(out);
  columns_.AppendTo(out);
  Clear();
}

void CounterBatchEncoder::Clear() {
  count_ = operations_ = rows_ = 0;
  no_room_ = has_times_ = false;
  heads_.Clear();
  last_head_ = kNone;
  pattern_of_head_.clear();
  patterns_.clear();
  shapes_.clear();
  states_.tag.clear();
  states_.per_instance.clear();
  for (auto* last : {&states_.sum, &states_.below, &states_.above}) last->clear();
  lists_.clear();
  last_instances_.clear();
  instances_ = 0;
  columns_.Clear();
}

}  // namespace rocattach
