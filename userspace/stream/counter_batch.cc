#include "userspace/stream/counter_batch.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "schemas/records.pb.h"
#include "userspace/stream/batch_columns.h"
#include "userspace/stream/counter_numbers.h"
#include "userspace/stream/frame.h"

namespace rocattach {
namespace {

// Maximum values of one operation in a batch, so that a payload stays far below
// kMaxPayloadBytes.
constexpr size_t kMaxOperationRecords = 4096;
// Approximate size of a shape on the wire.
constexpr size_t kShapeBytes = 16;
// Patterns of one head that are looked at before a new one is made.
constexpr int kMaxLooks = 8;

uint64_t TagOf(const rocattach_counter_value& value) {
  uint64_t word;
  memcpy(&word, &value, sizeof(word));
  return word & kValueTagBits;
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

// Whether both can be records of one CounterOperation.
bool SameOperation(const CounterRecord& a, const CounterRecord& b) {
  return a.operation == b.operation && a.session == b.session && a.plan == b.plan &&
         a.kernel_id == b.kernel_id && a.pass == b.pass && a.agent_id == b.agent_id &&
         a.begin_ns == b.begin_ns && a.end_ns == b.end_ns;
}

}  // namespace

size_t CounterBatchEncoder::bytes() const {
  return pattern_.bytes() + operation_.bytes() + begin_.bytes() + duration_.bytes() +
         sum_.bytes() + below_.bytes() + above_.bytes() + instance_.bytes() +
         shapes_.size() * kShapeBytes;
}

bool CounterBatchEncoder::full() const {
  return no_room_ || count_ >= kMaxBatchRecords || bytes() >= batch_bytes_;
}

bool CounterBatchEncoder::HasRoom(size_t values, size_t instances) {
  if (count_ + values > kMaxBatchRecords ||
      (count_ > 0 && instances_ + instances > kMaxBatchInstances)) {
    no_room_ = true;  // all of it goes into the next batch
  }
  return !no_room_;
}

size_t CounterBatchEncoder::AppendOperations(
    absl::Span<const CounterOperation> operations,
    absl::Span<const rocattach_counter_value>* values) {
  // Operations between two checks of the size.
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
  pattern_.Reserve(operations);
  operation_.Reserve(operations);
  for (PackedColumn* column : {&sum_, &below_, &above_}) column->Reserve(values);
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

// Records of one operation, which need not have everything else in common.
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
  if (columns_.room <= values.size()) {
    const size_t room = values.size() + 1;
    numbers_.resize(3 * room);
    columns_ = {numbers_.data(), room};
  }
  const uint32_t head = HeadOf(operation);
  uint32_t index = pattern_of_head_[head];
  // Without instances, none of the batch's shapes has a list in most batches.
  const bool quick = index != kNone && records.empty() && lists_.empty() &&
                     TakeQuickly(patterns_[index], values);
  if (!quick) {
    index = PatternOf(head, values, records);
    TakeNumbers(patterns_[index], values);
  }
  pattern_.Put(index);
  operation_.Put(ZigZag(operation.operation - previous_operation_));
  previous_operation_ = operation.operation;
  // Those of dispatches are in the dispatch records.
  if (has_times_ || (operation.begin_ns | operation.end_ns) != 0)
    AppendTimes(operation);
  AppendValues(patterns_[index]);
  if (!records.empty()) AppendInstances(patterns_[index], records);
  count_ += values.size();
  ++rows_;
}

void CounterBatchEncoder::AppendTimes(const CounterOperation& operation) {
  for (PackedColumn* column : {&begin_, &duration_}) {
    const size_t before = has_times_ ? 0 : rows_;
    column->Reserve(before + 1);
    column->PutZeros(before);
  }
  has_times_ = true;
  begin_.Put(ZigZag(operation.begin_ns - previous_begin_));
  previous_begin_ = operation.begin_ns;
  duration_.Put(operation.end_ns - operation.begin_ns);
}

// This runs for every value of every counted dispatch, like AppendValues().
bool CounterBatchEncoder::TakeQuickly(const Pattern& pattern, Values values) {
  return pattern.whole && pattern.count == values.size() &&
         TakeWholeValues(values, &states_.tag[pattern.first],
                         &states_.per_instance[pattern.first], columns_);
}

void CounterBatchEncoder::TakeNumbers(const Pattern& pattern, Values values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const rocattach_counter_value& value = values[i];
    const bool whole = shapes_[pattern.first + i].whole;
    const uint64_t middle =
        MiddleOf(value.sum, states_.per_instance[pattern.first + i], whole);
    columns_.sum[i] = NumberOf(value.sum, whole);
    columns_.below()[i] = middle - NumberOf(value.minimum, whole);
    columns_.above()[i] = NumberOf(value.maximum, whole) - middle;
  }
}

void CounterBatchEncoder::AppendValues(const Pattern& pattern) {
  const auto append = [&](uint64_t* numbers, std::vector<uint64_t>* last,
                          PackedColumn* column) {
    const uint64_t any =
        TakeDifferences(numbers, last->data() + pattern.first, pattern.count);
    column->PutAll(numbers, pattern.count, any);
  };
  // Minimum and maximum often are where they were.
  const auto append_few = [&](uint64_t* numbers, std::vector<uint64_t>* last,
                              PackedColumn* column) {
    if (AreEqual(numbers, last->data() + pattern.first, pattern.count)) {
      column->PutZeros(pattern.count);
    } else {
      append(numbers, last, column);
    }
  };
  append(columns_.sum, &states_.sum, &sum_);
  append_few(columns_.below(), &states_.below, &below_);
  append_few(columns_.above(), &states_.above, &above_);
}

bool CounterBatchEncoder::Fits(const Pattern& pattern, Values values) const {
  if (pattern.count != values.size()) return false;
  for (size_t i = 0; i < values.size(); ++i) {
    if (states_.tag[pattern.first + i] != TagOf(values[i])) return false;
    // A shape of bits has room for any value.
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
  // Mostly that of the dispatch before.
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
  Pattern pattern = {true, head, static_cast<uint32_t>(shapes_.size()),
                     static_cast<uint32_t>(values.size()), last};
  // A counter whose values were fractions will have fractions again: so there are at
  // most as many patterns of the same counters as they are, plus one.
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
    pattern.whole &= shape.whole;
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
    instance_.Reserve(each.size());
    for (size_t k = 0; k < each.size(); ++k) {
      const uint64_t number = NumberOf(each[k].value, whole);
      instance_.Put(ZigZag(number - last[k]));
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
  pattern_.AppendTo(Batch::kPatternFieldNumber, out);
  operation_.AppendTo(Batch::kOperationChangeFieldNumber, out);
  begin_.AppendTo(Batch::kBeginFieldNumber, out);
  duration_.AppendTo(Batch::kDurationFieldNumber, out);
  sum_.AppendTo(Batch::kSumChangeFieldNumber, out);
  below_.AppendTo(Batch::kBelowChangeFieldNumber, out);
  above_.AppendTo(Batch::kAboveChangeFieldNumber, out);
  instance_.AppendTo(Batch::kInstanceChangeFieldNumber, out);
  Clear();
}

void CounterBatchEncoder::Clear() {
  count_ = operations_ = rows_ = 0;
  no_room_ = has_times_ = false;
  previous_operation_ = previous_begin_ = 0;
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
  for (PackedColumn* column : {&pattern_, &operation_, &begin_, &duration_, &sum_,
                               &below_, &above_, &instance_}) {
    column->Clear();
  }
}

}  // namespace rocattach
