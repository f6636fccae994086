#include "userspace/stream/copy_batch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schemas/records.pb.h"
#include "userspace/base/status_macros.h"
#include "userspace/stream/batch_columns.h"
#include "userspace/stream/frame.h"

namespace rocattach {

CopyBatchEncoder::CopyBatchEncoder(size_t batch_bytes)
    : BatchEncoder(
          batch_bytes,
          {v1::CopyBatch::kShapeFieldNumber, v1::CopyBatch::kCorrelationFieldNumber,
           v1::CopyBatch::kEnqueueFieldNumber, v1::CopyBatch::kStartFieldNumber,
           v1::CopyBatch::kDurationFieldNumber, v1::CopyBatch::kBytesChangeFieldNumber,
           v1::CopyBatch::kSrcAddressChangeFieldNumber,
           v1::CopyBatch::kDstAddressChangeFieldNumber}) {}

size_t CopyBatchEncoder::Append(absl::Span<const rocattach_copy> records) {
  constexpr size_t kBlockRecords = 256;
  size_t taken = 0;
  while (taken < records.size() && !full()) {
    const size_t block = NextBlock(records.size() - taken, kBlockRecords);
    columns_.Reserve(block);
    for (const rocattach_copy& record : records.subspan(taken, block))
      AppendOne(record);
    taken += block;
    count_ += block;
  }
  return taken;
}

void CopyBatchEncoder::AppendOne(const rocattach_copy& record) {
  columns_[kShape].Put(shapes_.Index(
      {uint64_t{record.flags} | uint64_t{record.src_agent_id} << 16 |
           uint64_t{record.dst_agent_id} << 32 | uint64_t{record.direction} << 48,
       uint64_t{record.engine} | uint64_t{record.tid} << 32, record.hip_stream}));
  columns_[kCorrelation].PutChange(record.correlation_id, 1);
  columns_[kEnqueue].PutChange(record.enqueue_ns);
  SlotState& slot = slots_[record.direction % kBatchSlots];
  columns_[kStart].Put(
      ZigZag(record.start_ns - PredictStart(record.flags, record.enqueue_ns, slot)));
  columns_[kDuration].Put(record.end_ns - record.start_ns);
  slot.last_end = std::max(slot.last_end, record.end_ns);
  columns_[kBytes].PutChange(record.bytes);
  columns_[kSrc].PutChange(record.src_address);
  columns_[kDst].PutChange(record.dst_address);
  ExtendTimeRange(record.start_ns, record.end_ns, &first_start_ns_, &last_end_ns_);
}

void CopyBatchEncoder::EncodeTo(std::string* out) {
  using Batch = v1::CopyBatch;
  static constexpr ShapeColumn kShapeColumns[] = {
      {Batch::kShapeFlagsFieldNumber, 0, 0, 16},
      {Batch::kShapeSrcAgentIdFieldNumber, 0, 16, 16},
      {Batch::kShapeDstAgentIdFieldNumber, 0, 32, 16},
      {Batch::kShapeDirectionFieldNumber, 0, 48, 16},
      {Batch::kShapeEngineFieldNumber, 1, 0, 16},
      {Batch::kShapeTidFieldNumber, 1, 32, 32},
      {Batch::kShapeHipStreamFieldNumber, 2, 0, 32},
  };
  out->clear();
  AppendField(Batch::kCountFieldNumber, count_, out);
  AppendField(Batch::kFirstStartNsFieldNumber, first_start_ns_, out);
  AppendField(Batch::kLastEndNsFieldNumber, last_end_ns_, out);
  AppendShapesTo(Batch::kShapesFieldNumber, kShapeColumns, out);
  columns_.AppendTo(out);
  first_start_ns_ = last_end_ns_ = 0;
  slots_ = {};
  Clear();
}

absl::Status DecodeCopyBatch(absl::string_view payload,
                             std::vector<rocattach_copy>* records) {
  v1::CopyBatch batch;
  if (!batch.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::DataLossError("payload is not a CopyBatch");
  }
  RETURN_IF_ERROR(CheckBatch(batch));
  size_t before = records->size();
  records->reserve(before + batch.count());
  rocattach_copy record = {};
  record.kind = ROCATTACH_RECORD_COPY;
  std::array<SlotState, kBatchSlots> slots = {};
  for (int i = 0; i < static_cast<int>(batch.count()); ++i) {
    uint32_t shape = At(batch.shape(), i);
    if (shape >= batch.shapes()) {
      records->resize(before);
      return absl::DataLossError(absl::StrCat("record ", i, " has no shape"));
    }
    int at = static_cast<int>(shape);
    record.flags = static_cast<uint16_t>(At(batch.shape_flags(), at));
    record.src_agent_id = static_cast<uint16_t>(At(batch.shape_src_agent_id(), at));
    record.dst_agent_id = static_cast<uint16_t>(At(batch.shape_dst_agent_id(), at));
    record.direction = static_cast<uint16_t>(At(batch.shape_direction(), at));
    record.engine = static_cast<uint16_t>(At(batch.shape_engine(), at));
    record.tid = At(batch.shape_tid(), at);
    record.hip_stream = At(batch.shape_hip_stream(), at);
    record.correlation_id += 1 + Residual(batch.correlation(), i);
    record.enqueue_ns += Residual(batch.enqueue(), i);
    SlotState& slot = slots[record.direction % kBatchSlots];
    record.start_ns = PredictStart(record.flags, record.enqueue_ns, slot) +
                      Residual(batch.start(), i);
    record.end_ns = record.start_ns + At(batch.duration(), i);
    slot.last_end = std::max(slot.last_end, record.end_ns);
    record.bytes += Residual(batch.bytes_change(), i);
    record.src_address += Residual(batch.src_address_change(), i);
    record.dst_address += Residual(batch.dst_address_change(), i);
    records->push_back(record);
  }
  return absl::OkStatus();
}

}  // namespace rocattach
