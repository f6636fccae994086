#include "userspace/stream/dispatch_batch.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "schemas/records.pb.h"
#include "userspace/abi/hip_stream.h"
#include "userspace/base/status_macros.h"
#include "userspace/stream/batch_columns.h"
#include "userspace/stream/frame.h"

namespace rocattach {
namespace {

// The shape's words are loaded from the record as they are in memory, little-endian.
static_assert(offsetof(rocattach_dispatch, kernel_id) == 4);
static_assert(offsetof(rocattach_dispatch, queue_id) == 40);
static_assert(offsetof(rocattach_dispatch, tid) == 44);
static_assert(offsetof(rocattach_dispatch, grid_x) == 48);
static_assert(offsetof(rocattach_dispatch, grid_z) == 56);
static_assert(offsetof(rocattach_dispatch, workgroup_x) == 60);
static_assert(offsetof(rocattach_dispatch, workgroup_z) == 64);
static_assert(offsetof(rocattach_dispatch, agent_id) == 66);
static_assert(offsetof(rocattach_dispatch, lds_bytes) == 68);
static_assert(offsetof(rocattach_dispatch, scratch_bytes) == 72);
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

// Records between two checks of the size: the excess over batch_bytes_ stays small.
constexpr size_t kBlockRecords = 256;
// Approximate size of a shape on the wire.
constexpr size_t kShapeBytes = 24;
// Records whose entries are computed before they are written: few enough for the
// processor's first cache.
constexpr size_t kStep = 64;

// The next entries of a column.
class Entries {
 public:
  void Add(uint64_t value) {
    any_ |= value;
    values_[count_++] = value;
  }
  void PutInto(PackedColumn* column) const { column->PutAll(values_, count_, any_); }

 private:
  uint64_t values_[kStep];
  size_t count_ = 0;
  uint64_t any_ = 0;
};

uint64_t LoadWord(const rocattach_dispatch& record, size_t offset) {
  uint64_t word;
  memcpy(&word, reinterpret_cast<const char*>(&record) + offset, sizeof(word));
  return word;
}

// The shape's columns in v1::DispatchBatch.
constexpr ShapeColumn kShapeColumns[] = {
    {5, 0, 16, 16}, {6, 0, 32, 32},  {7, 1, 0, 32},  {8, 4, 16, 16},  {9, 1, 32, 32},
    {10, 2, 0, 32}, {11, 2, 32, 32}, {12, 3, 0, 32}, {13, 3, 32, 16}, {14, 3, 48, 16},
    {15, 4, 0, 16}, {16, 4, 32, 32}, {17, 5, 0, 32}, {18, 5, 32, 32},
};

}  // namespace

size_t DispatchBatchEncoder::bytes() const {
  return shape_.bytes() + correlation_.bytes() + enqueue_.bytes() + start_.bytes() +
         duration_.bytes() + packet_.bytes() + dispatch_.bytes() +
         shapes_.keys().size() * kShapeBytes;
}

bool DispatchBatchEncoder::full() const {
  return count_ >= kMaxBatchRecords || bytes() >= batch_bytes_;
}

size_t DispatchBatchEncoder::Append(absl::Span<const rocattach_dispatch> records) {
  size_t taken = 0;
  while (taken < records.size() && !full()) {
    size_t block =
        std::min({kBlockRecords, records.size() - taken, kMaxBatchRecords - count_});
    for (size_t done = 0; done < block; done += kStep) {
      const auto step = records.subspan(taken + done, std::min(kStep, block - done));
      for (PackedColumn* column : {&shape_, &correlation_, &enqueue_, &start_,
                                   &duration_, &packet_, &dispatch_}) {
        column->Reserve(step.size());
      }
      AppendShapes(step);
      AppendNumbers(step);
      AppendOfQueues(step);
    }
    taken += block;
    count_ += block;
  }
  return taken;
}

void DispatchBatchEncoder::AppendShapes(absl::Span<const rocattach_dispatch> records) {
  Entries shapes;
  for (const rocattach_dispatch& record : records) {
    const uint64_t stream = HipStreamIn(record.packet_index);
    const Shapes::Key key = {LoadWord(record, 0) & ~uint64_t{0xffff},  // without `kind`
                             LoadWord(record, 40),
                             LoadWord(record, 48),
                             LoadWord(record, 56),
                             LoadWord(record, 64),
                             record.scratch_bytes | stream << 32};
    shapes.Add(shapes_.Index(key));
  }
  shapes.PutInto(&shape_);
}

// What only depends on the record before.
void DispatchBatchEncoder::AppendNumbers(absl::Span<const rocattach_dispatch> records) {
  Entries correlations, enqueues, dispatches;
  uint64_t correlation = previous_correlation_, enqueue = previous_enqueue_,
           dispatch = previous_dispatch_, any_dispatch = 0;
  for (const rocattach_dispatch& record : records) {
    correlations.Add(ZigZag(record.correlation_id - correlation - 1));
    correlation = record.correlation_id;
    enqueues.Add(ZigZag(record.enqueue_ns - enqueue));
    enqueue = record.enqueue_ns;
    dispatches.Add(ZigZag(record.dispatch_id - dispatch - 1));
    dispatch = record.dispatch_id;
    any_dispatch |= dispatch;
  }
  previous_correlation_ = correlation;
  previous_enqueue_ = enqueue;
  previous_dispatch_ = dispatch;
  has_dispatch_ids_ |= any_dispatch != 0;
  correlations.PutInto(&correlation_);
  enqueues.PutInto(&enqueue_);
  dispatches.PutInto(&dispatch_);
}

// What depends on the records of the same queue before it.
void DispatchBatchEncoder::AppendOfQueues(
    absl::Span<const rocattach_dispatch> records) {
  Entries starts, durations, packets;
  for (const rocattach_dispatch& record : records) {
    const uint64_t packet = PacketNumber(record);
    SlotState& slot = slots_[record.queue_id % kBatchSlots];
    starts.Add(
        ZigZag(record.start_ns - PredictStart(record.flags, record.enqueue_ns, slot)));
    durations.Add(record.end_ns - record.start_ns);
    packets.Add(ZigZag(packet - slot.last_packet - 1));
    slot.last_end = std::max(slot.last_end, record.end_ns);
    slot.last_packet = packet;
    NoteTimes(record.start_ns, record.end_ns, &first_start_ns_, &last_end_ns_);
  }
  starts.PutInto(&start_);
  durations.PutInto(&duration_);
  packets.PutInto(&packet_);
}

void DispatchBatchEncoder::EncodeTo(std::string* out) {
  out->clear();
  AppendField(v1::DispatchBatch::kCountFieldNumber, count_, out);
  AppendField(v1::DispatchBatch::kFirstStartNsFieldNumber, first_start_ns_, out);
  AppendField(v1::DispatchBatch::kLastEndNsFieldNumber, last_end_ns_, out);
  AppendField(v1::DispatchBatch::kShapesFieldNumber, shapes_.keys().size(), out);
  AppendShapeColumns(kShapeColumns, shapes_.keys(), out);
  shape_.AppendTo(v1::DispatchBatch::kShapeFieldNumber, out);
  correlation_.AppendTo(v1::DispatchBatch::kCorrelationFieldNumber, out);
  enqueue_.AppendTo(v1::DispatchBatch::kEnqueueFieldNumber, out);
  start_.AppendTo(v1::DispatchBatch::kStartFieldNumber, out);
  duration_.AppendTo(v1::DispatchBatch::kDurationFieldNumber, out);
  packet_.AppendTo(v1::DispatchBatch::kPacketFieldNumber, out);
  if (has_dispatch_ids_) {
    dispatch_.AppendTo(v1::DispatchBatch::kDispatchFieldNumber, out);
    AppendField(v1::DispatchBatch::kDispatchIdsFieldNumber, 1, out);
  }
  Clear();
}

void DispatchBatchEncoder::Clear() {
  count_ = 0;
  first_start_ns_ = last_end_ns_ = 0;
  previous_correlation_ = previous_enqueue_ = previous_dispatch_ = 0;
  has_dispatch_ids_ = false;
  slots_ = {};
  shapes_.Clear();
  for (PackedColumn* column :
       {&shape_, &correlation_, &enqueue_, &start_, &duration_, &packet_, &dispatch_}) {
    column->Clear();
  }
}

namespace {

absl::Status CheckDispatchColumns(const v1::DispatchBatch& batch) {
  RETURN_IF_ERROR(CheckCounts(batch.count(), batch.shapes()));
  ColumnChecker shapes(batch.shapes());
  shapes.Check("shape_flags", batch.shape_flags());
  shapes.Check("shape_kernel_id", batch.shape_kernel_id());
  shapes.Check("shape_queue_id", batch.shape_queue_id());
  shapes.Check("shape_agent_id", batch.shape_agent_id());
  shapes.Check("shape_tid", batch.shape_tid());
  shapes.Check("shape_grid_x", batch.shape_grid_x());
  shapes.Check("shape_grid_y", batch.shape_grid_y());
  shapes.Check("shape_grid_z", batch.shape_grid_z());
  shapes.Check("shape_workgroup_x", batch.shape_workgroup_x());
  shapes.Check("shape_workgroup_y", batch.shape_workgroup_y());
  shapes.Check("shape_workgroup_z", batch.shape_workgroup_z());
  shapes.Check("shape_lds_bytes", batch.shape_lds_bytes());
  shapes.Check("shape_scratch_bytes", batch.shape_scratch_bytes());
  shapes.Check("shape_hip_stream", batch.shape_hip_stream());
  RETURN_IF_ERROR(shapes.status());
  ColumnChecker records(batch.count());
  records.Check("shape", batch.shape());
  records.Check("correlation", batch.correlation());
  records.Check("enqueue", batch.enqueue());
  records.Check("start", batch.start());
  records.Check("duration", batch.duration());
  records.Check("packet", batch.packet());
  records.Check("dispatch", batch.dispatch());
  return records.status();
}

// The fields that come from the record's shape; false if there is no such shape.
bool FillShape(const v1::DispatchBatch& batch, uint32_t shape,
               rocattach_dispatch* record) {
  if (shape >= batch.shapes()) return false;
  int at = static_cast<int>(shape);
  record->kind = ROCATTACH_RECORD_DISPATCH;
  record->flags = static_cast<uint16_t>(At(batch.shape_flags(), at));
  record->kernel_id = At(batch.shape_kernel_id(), at);
  record->queue_id = At(batch.shape_queue_id(), at);
  record->agent_id = static_cast<uint16_t>(At(batch.shape_agent_id(), at));
  record->tid = At(batch.shape_tid(), at);
  record->grid_x = At(batch.shape_grid_x(), at);
  record->grid_y = At(batch.shape_grid_y(), at);
  record->grid_z = At(batch.shape_grid_z(), at);
  record->workgroup_x = static_cast<uint16_t>(At(batch.shape_workgroup_x(), at));
  record->workgroup_y = static_cast<uint16_t>(At(batch.shape_workgroup_y(), at));
  record->workgroup_z = static_cast<uint16_t>(At(batch.shape_workgroup_z(), at));
  record->lds_bytes = At(batch.shape_lds_bytes(), at);
  record->scratch_bytes = At(batch.shape_scratch_bytes(), at);
  record->packet_index = PacketIndexOf(At(batch.shape_hip_stream(), at));
  return true;
}

}  // namespace

absl::Status DecodeDispatchBatch(absl::string_view payload,
                                 std::vector<rocattach_dispatch>* records) {
  v1::DispatchBatch batch;
  if (!batch.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::DataLossError("payload is not a DispatchBatch");
  }
  RETURN_IF_ERROR(CheckDispatchColumns(batch));
  size_t before = records->size();
  records->reserve(before + batch.count());
  uint64_t correlation = 0, enqueue = 0, dispatch = 0;
  const bool has_dispatch_ids = batch.dispatch_ids() || !batch.dispatch().empty();
  std::array<SlotState, kBatchSlots> slots = {};
  for (int i = 0; i < static_cast<int>(batch.count()); ++i) {
    rocattach_dispatch record = {};
    if (!FillShape(batch, At(batch.shape(), i), &record)) {
      records->resize(before);
      return absl::DataLossError(absl::StrCat("record ", i, " has no shape"));
    }
    correlation += 1 + Residual(batch.correlation(), i);
    enqueue += Residual(batch.enqueue(), i);
    record.correlation_id = correlation;
    record.enqueue_ns = enqueue;
    SlotState& slot = slots[record.queue_id % kBatchSlots];
    record.start_ns =
        PredictStart(record.flags, enqueue, slot) + Residual(batch.start(), i);
    record.end_ns = record.start_ns + At(batch.duration(), i);
    slot.last_packet += 1 + Residual(batch.packet(), i);
    if (record.packet_index == 0) record.packet_index = slot.last_packet;
    if (has_dispatch_ids) {
      dispatch += 1 + Residual(batch.dispatch(), i);
      record.dispatch_id = dispatch;
    }
    slot.last_end = std::max(slot.last_end, record.end_ns);
    records->push_back(record);
  }
  return absl::OkStatus();
}

}  // namespace rocattach
