#include "userspace/stream/counter_batch.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "schemas/records.pb.h"
#include "userspace/base/status_macros.h"
#include "userspace/stream/batch_columns.h"
#include "userspace/stream/frame.h"

namespace rocattach {
namespace {

// CounterBatch.shape_flags.
constexpr uint32_t kWhole = 1;
constexpr uint32_t kWholeInstances = 2;
// Maximum values of one operation in a batch, so that a payload stays far below
// kMaxPayloadBytes.
constexpr size_t kMaxOperationRecords = 4096;
// Maximum values of instances in a batch; an absent column must not make a reader
// allocate more.
constexpr size_t kMaxInstances = size_t{1} << 20;
// Approximate size of a shape on the wire.
constexpr size_t kShapeBytes = 16;

uint64_t BitsOf(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// The bits that differences are taken of: integers, if all three values are integers
// and convert back bit by bit (-0 does not). Avoids std::trunc, which is a function
// call on baseline x86-64. Unrolled by hand, since it runs for every value.
bool TakeBits(const CounterRecord& record, CounterValueBits* bits) {
  constexpr double kLimit = 9007199254740992.0;  // 2^53
  const double sum = record.sum, minimum = record.minimum, maximum = record.maximum;
  // False for NaN as well.
  if (std::abs(sum) < kLimit && std::abs(minimum) < kLimit &&
      std::abs(maximum) < kLimit) {
    const auto whole_sum = static_cast<int64_t>(sum);
    const auto whole_minimum = static_cast<int64_t>(minimum);
    const auto whole_maximum = static_cast<int64_t>(maximum);
    const uint64_t differ =
        (BitsOf(static_cast<double>(whole_sum)) ^ BitsOf(sum)) |
        (BitsOf(static_cast<double>(whole_minimum)) ^ BitsOf(minimum)) |
        (BitsOf(static_cast<double>(whole_maximum)) ^ BitsOf(maximum));
    if (differ == 0) {
      *bits = {static_cast<uint64_t>(whole_sum), static_cast<uint64_t>(whole_minimum),
               static_cast<uint64_t>(whole_maximum)};
      return true;
    }
  }
  *bits = {BitsOf(sum), BitsOf(minimum), BitsOf(maximum)};
  return false;
}

// Whether all values are integers as above.
bool AreWhole(const std::vector<CounterInstance>& instances) {
  constexpr double kLimit = 9007199254740992.0;  // 2^53
  for (const CounterInstance& instance : instances) {
    const double value = instance.value;
    if (!(std::abs(value) < kLimit) ||
        BitsOf(static_cast<double>(static_cast<int64_t>(value))) != BitsOf(value)) {
      return false;
    }
  }
  return true;
}

size_t InstancesOf(absl::Span<const CounterRecord> records) {
  size_t instances = 0;
  for (const CounterRecord& record : records) {
    if (record.each != nullptr) instances += record.each->size();
  }
  return instances;
}

double ValueOf(uint64_t bits, bool whole) {
  if (whole) return static_cast<double>(static_cast<int64_t>(bits));
  double value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace

size_t CounterBatchEncoder::bytes() const {
  return shape_.bytes() + operation_.bytes() + begin_.bytes() + duration_.bytes() +
         sum_.bytes() + minimum_.bytes() + maximum_.bytes() + instance_.bytes() +
         shapes_.keys().size() * kShapeBytes;
}

bool CounterBatchEncoder::full() const {
  return no_room_ || count_ >= kMaxBatchRecords || bytes() >= batch_bytes_;
}

size_t CounterBatchEncoder::Append(absl::Span<const CounterRecord> records) {
  size_t taken = 0;
  while (taken < records.size() && !full()) {
    size_t end = taken + 1;
    while (end < records.size() && end - taken < kMaxOperationRecords &&
           records[end].operation == records[taken].operation) {
      ++end;
    }
    const size_t instances = InstancesOf(records.subspan(taken, end - taken));
    if (count_ + (end - taken) > kMaxBatchRecords ||
        (count_ > 0 && instances_ + instances > kMaxInstances)) {
      no_room_ = true;  // all of it goes into the next batch
      return taken;
    }
    instances_ += instances;
    for (PackedColumn* column :
         {&shape_, &operation_, &begin_, &duration_, &sum_, &minimum_, &maximum_}) {
      column->Reserve(end - taken);
    }
    AppendOperation(records.subspan(taken, end - taken));
    taken = end;
  }
  return taken;
}

// Column by column, since this runs for every value of every counted dispatch.
void CounterBatchEncoder::AppendOperation(absl::Span<const CounterRecord> records) {
  uint64_t times = previous_begin_;
  entries_.resize(records.size());
  {
    PackedColumn::Run shapes(&shape_);
    for (size_t i = 0; i < records.size(); ++i) {
      const CounterRecord& record = records[i];
      const bool whole = TakeBits(record, &entries_[i].bits);
      uint64_t flags = whole ? kWhole : 0, list = 0;
      if (record.each != nullptr) {
        list = ListOf(record);
        if (AreWhole(*record.each)) flags |= kWholeInstances;
      }
      const uint32_t shape =
          shapes_.Index({record.session, record.plan | uint64_t{record.kernel_id} << 32,
                         record.counter | uint64_t{record.pass} << 16 |
                             uint64_t{record.agent_id} << 32 | flags << 48,
                         record.instances | list << 32});
      if (shape == last_.size()) last_.emplace_back();
      entries_[i].shape = shape;
      shapes.Put(shape);
      times |= record.begin_ns | record.end_ns;
    }
  }
  {
    PackedColumn::Run sum(&sum_), minimum(&minimum_), maximum(&maximum_);
    for (const Entry& entry : entries_) {
      CounterValueBits& last = last_[entry.shape];
      sum.Put(ZigZag(entry.bits[0] - last[0]));
      minimum.Put(ZigZag(entry.bits[1] - last[1]));
      maximum.Put(ZigZag(entry.bits[2] - last[2]));
      last = entry.bits;
    }
  }
  AppendInstances(records);
  operation_.Put(ZigZag(records[0].operation - previous_operation_));
  operation_.PutZeros(records.size() - 1);
  previous_operation_ = records[0].operation;
  if (times == 0) {  // dispatches: the times are in the dispatch record
    begin_.PutZeros(records.size());
    duration_.PutZeros(records.size());
  } else {
    AppendTimes(records);
  }
  count_ += records.size();
  ++operations_;
}

void CounterBatchEncoder::AppendInstances(absl::Span<const CounterRecord> records) {
  for (size_t i = 0; i < records.size(); ++i) {
    if (records[i].each == nullptr) continue;
    const std::vector<CounterInstance>& each = *records[i].each;
    const bool whole = AreWhole(each);
    if (entries_[i].shape >= last_instances_.size()) {
      last_instances_.resize(entries_[i].shape + 1);
    }
    std::vector<uint64_t>& last = last_instances_[entries_[i].shape];
    last.resize(each.size());
    instance_.Reserve(each.size());
    for (size_t k = 0; k < each.size(); ++k) {
      const uint64_t bits =
          whole ? static_cast<uint64_t>(static_cast<int64_t>(each[k].value))
                : BitsOf(each[k].value);
      instance_.Put(ZigZag(bits - last[k]));
      last[k] = bits;
    }
  }
}

uint32_t CounterBatchEncoder::ListOf(const CounterRecord& record) {
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

void CounterBatchEncoder::AppendTimes(absl::Span<const CounterRecord> records) {
  for (const CounterRecord& record : records) {
    begin_.Put(ZigZag(record.begin_ns - previous_begin_));
    previous_begin_ = record.begin_ns;
    duration_.Put(record.end_ns - record.begin_ns);
  }
}

void CounterBatchEncoder::AppendShapes(std::string* out) const {
  using Batch = v1::CounterBatch;
  static constexpr ShapeColumn kColumns[] = {
      {Batch::kShapeFlagsFieldNumber, 2, 48, 16},
      {Batch::kShapeSessionFieldNumber, 0, 0, 64},
      {Batch::kShapePlanFieldNumber, 1, 0, 32},
      {Batch::kShapePassFieldNumber, 2, 16, 16},
      {Batch::kShapeCounterFieldNumber, 2, 0, 16},
      {Batch::kShapeAgentIdFieldNumber, 2, 32, 16},
      {Batch::kShapeKernelIdFieldNumber, 1, 32, 32},
      {Batch::kShapeInstancesFieldNumber, 3, 0, 32},
      {Batch::kShapeListFieldNumber, 3, 32, 32},
  };
  AppendShapeColumns(kColumns, shapes_.keys(), out);
}

void CounterBatchEncoder::EncodeTo(std::string* out) {
  using Batch = v1::CounterBatch;
  out->clear();
  AppendField(Batch::kCountFieldNumber, count_, out);
  AppendField(Batch::kShapesFieldNumber, shapes_.keys().size(), out);
  AppendShapes(out);
  AppendLists(out);
  shape_.AppendTo(Batch::kShapeFieldNumber, out);
  operation_.AppendTo(Batch::kOperationChangeFieldNumber, out);
  begin_.AppendTo(Batch::kBeginFieldNumber, out);
  duration_.AppendTo(Batch::kDurationFieldNumber, out);
  sum_.AppendTo(Batch::kSumChangeFieldNumber, out);
  minimum_.AppendTo(Batch::kMinimumChangeFieldNumber, out);
  maximum_.AppendTo(Batch::kMaximumChangeFieldNumber, out);
  instance_.AppendTo(Batch::kInstanceChangeFieldNumber, out);
  Clear();
}

void CounterBatchEncoder::Clear() {
  count_ = operations_ = 0;
  no_room_ = false;
  previous_operation_ = previous_begin_ = 0;
  shapes_.Clear();
  last_.clear();
  lists_.clear();
  last_instances_.clear();
  instances_ = 0;
  for (PackedColumn* column : {&shape_, &operation_, &begin_, &duration_, &sum_,
                               &minimum_, &maximum_, &instance_}) {
    column->Clear();
  }
}

namespace {

absl::Status CheckColumns(const v1::CounterBatch& batch) {
  RETURN_IF_ERROR(CheckCounts(batch.count(), batch.shapes()));
  ColumnChecker shapes(batch.shapes());
  shapes.Check("shape_flags", batch.shape_flags());
  shapes.Check("shape_session", batch.shape_session());
  shapes.Check("shape_plan", batch.shape_plan());
  shapes.Check("shape_pass", batch.shape_pass());
  shapes.Check("shape_counter", batch.shape_counter());
  shapes.Check("shape_agent_id", batch.shape_agent_id());
  shapes.Check("shape_kernel_id", batch.shape_kernel_id());
  shapes.Check("shape_instances", batch.shape_instances());
  shapes.Check("shape_list", batch.shape_list());
  RETURN_IF_ERROR(shapes.status());
  ColumnChecker records(batch.count());
  records.Check("shape", batch.shape());
  records.Check("operation_change", batch.operation_change());
  records.Check("begin", batch.begin());
  records.Check("duration", batch.duration());
  records.Check("sum_change", batch.sum_change());
  records.Check("minimum_change", batch.minimum_change());
  records.Check("maximum_change", batch.maximum_change());
  return records.status();
}

void FillShape(const v1::CounterBatch& batch, int at, CounterRecord* record) {
  record->session = At(batch.shape_session(), at);
  record->plan = At(batch.shape_plan(), at);
  record->pass = static_cast<uint16_t>(At(batch.shape_pass(), at));
  record->counter = static_cast<uint16_t>(At(batch.shape_counter(), at));
  record->agent_id = static_cast<uint16_t>(At(batch.shape_agent_id(), at));
  record->kernel_id = At(batch.shape_kernel_id(), at);
  record->instances = At(batch.shape_instances(), at);
}

// The lists of positions, and the values in one column, of a batch's instances.
class InstanceDecoder {
 public:
  explicit InstanceDecoder(const v1::CounterBatch& batch)
      : batch_(batch), last_(batch.shapes()) {}

  absl::Status Begin() {
    size_t begin = 0;
    for (const uint32_t length : batch_.list_length()) {
      starts_.push_back(begin);
      begin += length;
    }
    starts_.push_back(begin);
    const auto positions = static_cast<size_t>(batch_.list_position_size());
    // Positions may all be 0, and their column absent.
    if (begin > kMaxInstances || (positions != 0 && positions != begin)) {
      return absl::DataLossError(absl::StrCat("lists of ", begin, " instances have ",
                                              positions, " positions"));
    }
    size_t values = 0;
    for (int i = 0; i < static_cast<int>(batch_.count()); ++i) {
      const uint32_t shape = At(batch_.shape(), i);
      if (shape >= batch_.shapes()) continue;  // refused later
      const uint32_t list = At(batch_.shape_list(), static_cast<int>(shape));
      if (list >= starts_.size()) {
        return absl::DataLossError(absl::StrCat("record ", i, " has no list"));
      }
      if (list != 0) values += starts_[list] - starts_[list - 1];
      if (values > kMaxInstances) break;
    }
    const auto column = static_cast<size_t>(batch_.instance_change_size());
    if (values > kMaxInstances || (column != 0 && column != values)) {
      return absl::DataLossError(
          absl::StrCat("batch has ", column, " values of ", values, " instances"));
    }
    return absl::OkStatus();
  }

  // Of the next record, whose shape is known.
  void Take(int shape, CounterRecord* record) {
    const uint32_t list = At(batch_.shape_list(), shape);
    if (list == 0) return;
    const size_t begin = starts_[list - 1];
    const size_t count = starts_[list] - begin;
    if (count == 0) return;
    const bool whole = (At(batch_.shape_flags(), shape) & kWholeInstances) != 0;
    std::vector<uint64_t>& last = last_[static_cast<size_t>(shape)];
    last.resize(count);
    auto each = std::make_shared<std::vector<CounterInstance>>(count);
    for (size_t k = 0; k < count; ++k) {
      last[k] += Residual(batch_.instance_change(), next_++);
      (*each)[k] = {At(batch_.list_position(), static_cast<int>(begin + k)),
                    ValueOf(last[k], whole)};
    }
    record->each = std::move(each);
  }

 private:
  const v1::CounterBatch& batch_;
  std::vector<size_t> starts_;  // of each list, and the end of the last
  std::vector<std::vector<uint64_t>> last_;
  int next_ = 0;
};

}  // namespace

InstancePlace PlaceOf(uint64_t position) {
  const auto part = [&](uint32_t shift, uint32_t bits) {
    return static_cast<uint32_t>(position >> shift & ((uint64_t{1} << bits) - 1));
  };
  return {
      part(ROCATTACH_INSTANCE_XCC_SHIFT, ROCATTACH_INSTANCE_XCC_BITS),
      part(ROCATTACH_INSTANCE_AID_SHIFT, ROCATTACH_INSTANCE_AID_BITS),
      part(ROCATTACH_INSTANCE_SHADER_ENGINE_SHIFT,
           ROCATTACH_INSTANCE_SHADER_ENGINE_BITS),
      part(ROCATTACH_INSTANCE_SHADER_ARRAY_SHIFT, ROCATTACH_INSTANCE_SHADER_ARRAY_BITS),
      part(ROCATTACH_INSTANCE_WGP_SHIFT, ROCATTACH_INSTANCE_WGP_BITS),
      part(0, ROCATTACH_INSTANCE_BITS)};
}

absl::Status DecodeCounterBatch(absl::string_view payload,
                                std::vector<CounterRecord>* records) {
  v1::CounterBatch batch;
  if (!batch.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::DataLossError("payload is not a CounterBatch");
  }
  RETURN_IF_ERROR(CheckColumns(batch));
  const size_t before = records->size();
  records->reserve(before + batch.count());
  std::vector<CounterValueBits> last(batch.shapes());
  InstanceDecoder instances(batch);
  RETURN_IF_ERROR(instances.Begin());
  uint64_t operation = 0, begin = 0;
  for (int i = 0; i < static_cast<int>(batch.count()); ++i) {
    const uint32_t shape = At(batch.shape(), i);
    if (shape >= batch.shapes()) {
      records->resize(before);
      return absl::DataLossError(absl::StrCat("record ", i, " has no shape"));
    }
    CounterRecord record;
    FillShape(batch, static_cast<int>(shape), &record);
    record.operation = operation += Residual(batch.operation_change(), i);
    record.begin_ns = begin += Residual(batch.begin(), i);
    record.end_ns = begin + At(batch.duration(), i);
    CounterValueBits& bits = last[shape];
    bits[0] += Residual(batch.sum_change(), i);
    bits[1] += Residual(batch.minimum_change(), i);
    bits[2] += Residual(batch.maximum_change(), i);
    const bool whole = (At(batch.shape_flags(), static_cast<int>(shape)) & kWhole) != 0;
    record.sum = ValueOf(bits[0], whole);
    record.minimum = ValueOf(bits[1], whole);
    record.maximum = ValueOf(bits[2], whole);
    instances.Take(static_cast<int>(shape), &record);
    records->push_back(record);
  }
  return absl::OkStatus();
}

}  // namespace rocattach
