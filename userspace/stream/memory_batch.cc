#include "userspace/stream/memory_batch.h"

#include "absl/strings/str_cat.h"
#include "schemas/records.pb.h"
#include "userspace/base/status_macros.h"
#include "userspace/stream/batch_columns.h"
#include "userspace/stream/frame.h"

namespace rocattach {

MemoryBatchEncoder::MemoryBatchEncoder(size_t batch_bytes)
    : BatchEncoder(
          batch_bytes,
          {v1::MemoryBatch::kShapeFieldNumber, v1::MemoryBatch::kCorrelationFieldNumber,
           v1::MemoryBatch::kBeginFieldNumber, v1::MemoryBatch::kDurationFieldNumber,
           v1::MemoryBatch::kAddressChangeFieldNumber,
           v1::MemoryBatch::kBytesFieldNumber}) {}

size_t MemoryBatchEncoder::Append(absl::Span<const MemoryRecord> records) {
  size_t taken = 0;
  for (; taken < records.size() && !full(); ++taken) {
    columns_.Reserve(1);
    AppendOne(records[taken]);
  }
  return taken;
}

void MemoryBatchEncoder::AppendOne(const MemoryRecord& record) {
  columns_[kShape].Put(
      shapes_.Index({record.session, record.queue_id | uint64_t{record.tid} << 32,
                     record.operation | uint64_t{record.agent_id} << 16 |
                         uint64_t{record.scratch_flags} << 32}));
  columns_[kCorrelation].PutChange(record.correlation_id, 1);
  columns_[kBegin].PutChange(record.begin_ns);
  columns_[kDuration].Put(record.end_ns - record.begin_ns);
  columns_[kAddress].PutChange(record.address);
  columns_[kBytes].Put(record.bytes);
  ++count_;
}

void MemoryBatchEncoder::EncodeTo(std::string* out) {
  using Batch = v1::MemoryBatch;
  static constexpr ShapeColumn kShapeColumns[] = {
      {Batch::kShapeOperationFieldNumber, 2, 0, 16},
      {Batch::kShapeSessionFieldNumber, 0, 0, 64},
      {Batch::kShapeAgentIdFieldNumber, 2, 16, 16},
      {Batch::kShapeQueueIdFieldNumber, 1, 0, 32},
      {Batch::kShapeScratchFlagsFieldNumber, 2, 32, 16},
      {Batch::kShapeTidFieldNumber, 1, 32, 32},
  };
  out->clear();
  AppendField(Batch::kCountFieldNumber, count_, out);
  AppendShapesTo(Batch::kShapesFieldNumber, kShapeColumns, out);
  columns_.AppendTo(out);
  Clear();
}

absl::Status DecodeMemoryBatch(absl::string_view payload,
                               std::vector<MemoryRecord>* records) {
  v1::MemoryBatch batch;
  if (!batch.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::DataLossError("payload is not a MemoryBatch");
  }
  RETURN_IF_ERROR(CheckBatch(batch));
  const size_t before = records->size();
  records->reserve(before + batch.count());
  uint64_t correlation = 0, begin = 0, address = 0;
  for (int i = 0; i < static_cast<int>(batch.count()); ++i) {
    const uint32_t shape = At(batch.shape(), i);
    if (shape >= batch.shapes()) {
      records->resize(before);
      return absl::DataLossError(absl::StrCat("record ", i, " has no shape"));
    }
    const int at = static_cast<int>(shape);
    MemoryRecord record;
    record.operation = static_cast<uint16_t>(At(batch.shape_operation(), at));
    record.session = At(batch.shape_session(), at);
    record.agent_id = static_cast<uint16_t>(At(batch.shape_agent_id(), at));
    record.queue_id = At(batch.shape_queue_id(), at);
    record.scratch_flags = static_cast<uint16_t>(At(batch.shape_scratch_flags(), at));
    record.tid = At(batch.shape_tid(), at);
    record.correlation_id = correlation += 1 + Residual(batch.correlation(), i);
    record.begin_ns = begin += Residual(batch.begin(), i);
    record.end_ns = begin + At(batch.duration(), i);
    record.address = address += Residual(batch.address_change(), i);
    record.bytes = At(batch.bytes(), i);
    records->push_back(record);
  }
  return absl::OkStatus();
}

}  // namespace rocattach
