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
// Number of records whose entries are computed before they are written: few enough to
// stay in the processor's first-level cache.
constexpr size_t kStep = 64;

// Collects the next entries of a column.
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

}  // namespace

DispatchBatchEncoder::DispatchBatchEncoder(size_t batch_bytes)
    : BatchEncoder(batch_bytes, {v1::DispatchBatch::kShapeFieldNumber,
                                 v1::DispatchBatch::kCorrelationFieldNumber,
                                 v1::DispatchBatch::kEnqueueFieldNumber,
                                 v1::DispatchBatch::kStartFieldNumber,
                                 v1::DispatchBatch::kDurationFieldNumber,
                                 v1::DispatchBatch::kPacketFieldNumber}) {}

size_t DispatchBatchEncoder::Append(absl::Span<const rocattach_dispatch> records) {
  size_t taken = 0;
  while (taken < records.size() && !full()) {
    const size_t block = NextBlock(records.size() - taken, kBlockRecords);
    for (size_t done = 0; done < block; done += kStep) {
      const auto step = records.subspan(taken + done, std::min(kStep, block - done));
      columns_.Reserve(step.size());
      dispatch_.Reserve(step.size());
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
  shapes.PutInto(&columns_[kShape]);
}

// Appends the columns that depend only on the previous record.
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
  correlations.PutInto(&columns_[kCorrelation]);
  enqueues.PutInto(&columns_[kEnqueue]);
  dispatches.PutInto(&dispatch_);
}

// Appends the columns that depend on earlier records of the same queue.
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
    ExtendTimeRange(record.start_ns, record.end_ns, &first_start_ns_, &last_end_ns_);
  }
  starts.PutInto(&columns_[kStart]);
  durations.PutInto(&columns_[kDuration]);
  packets.PutInto(&columns_[kPacket]);
}

void DispatchBatchEncoder::EncodeTo(std::string* out) {
  using Batch = v1::DispatchBatch;
  static constexpr ShapeColumn kShapeColumns[] = {
      {Batch::kShapeFlagsFieldNumber, 0, 16, 16},
      {Batch::kShapeKernelIdFieldNumber, 0, 32, 32},
      {Batch::kShapeQueueIdFieldNumber, 1, 0, 32},
      {Batch::kShapeAgentIdFieldNumber, 4, 16, 16},
      {Batch::kShapeTidFieldNumber, 1, 32, 32},
      {Batch::kShapeGridXFieldNumber, 2, 0, 32},
      {Batch::kShapeGridYFieldNumber, 2, 32, 32},
      {Batch::kShapeGridZFieldNumber, 3, 0, 32},
      {Batch::kShapeWorkgroupXFieldNumber, 3, 32, 16},
      {Batch::kShapeWorkgroupYFieldNumber, 3, 48, 16},
      {Batch::kShapeWorkgroupZFieldNumber, 4, 0, 16},
      {Batch::kShapeLdsBytesFieldNumber, 4, 32, 32},
      {Batch::kShapeScratchBytesFieldNumber, 5, 0, 32},
      {Batch::kShapeHipStreamFieldNumber, 5, 32, 32},
  };
  out->clear();
  AppendField(Batch::kCountFieldNumber, count_, out);
  AppendField(Batch::kFirstStartNsFieldNumber, first_start_ns_, out);
  AppendField(Batch::kLastEndNsFieldNumber, last_end_ns_, out);
  AppendShapesTo(Batch::kShapesFieldNumber, kShapeColumns, out);
  columns_.AppendTo(out);
  if (has_dispatch_ids_) {
    dispatch_.AppendTo(Batch::kDispatchFieldNumber, out);
    AppendField(Batch::kDispatchIdsFieldNumber, 1, out);
  }
  Clear();
}

void DispatchBatchEncoder::Clear() {
  BatchEncoder::Clear();
  first_start_ns_ = last_end_ns_ = 0;
  previous_correlation_ = previous_enqueue_ = previous_dispatch_ = 0;
  has_dispatch_ids_ = false;
  slots_ = {};
  dispatch_.Clear();
}

namespace {

// Fills in the fields that the shape determines; false if there is no such shape.
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
  RETURN_IF_ERROR(CheckBatch(batch));
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
