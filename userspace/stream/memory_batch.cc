#include "userspace/stream/memory_batch.h"

#include "absl/strings/str_cat.h"
#include "schemas/records.pb.h"
#include "userspace/base/status_macros.h"
#include "userspace/stream/batch_columns.h"
#include "userspace/stream/frame.h"

namespace rocattach {
namespace {

// Approximate size of a shape on the wire.
constexpr size_t kShapeBytes = 14;

}  // namespace

size_t MemoryBatchEncoder::bytes() const {
  return shape_.bytes() + correlation_.bytes() + begin_.bytes() + duration_.bytes() +
         address_.bytes() + size_.bytes() + shapes_.keys().size() * kShapeBytes;
}

bool MemoryBatchEncoder::full() const {
  return count_ >= kMaxBatchRecords || bytes() >= batch_bytes_;
}

size_t MemoryBatchEncoder::Append(absl::Span<const MemoryRecord> records) {
  size_t taken = 0;
  for (; taken < records.size() && !full(); ++taken) {
    for (PackedColumn* column :
         {&shape_, &correlation_, &begin_, &duration_, &address_, &size_}) {
      column->Reserve(1);
    }
    AppendOne(records[taken]);
  }
  return taken;
}

void MemoryBatchEncoder::AppendOne(const MemoryRecord& record) {
  shape_.Put(
      shapes_.Index({record.session, record.queue_id | uint64_t{record.tid} << 32,
                     record.operation | uint64_t{record.agent_id} << 16 |
                         uint64_t{record.scratch_flags} << 32}));
  correlation_.Put(ZigZag(record.correlation_id - previous_correlation_ - 1));
  previous_correlation_ = record.correlation_id;
  begin_.Put(ZigZag(record.begin_ns - previous_begin_));
  previous_begin_ = record.begin_ns;
  duration_.Put(record.end_ns - record.begin_ns);
  address_.Put(ZigZag(record.address - previous_address_));
  previous_address_ = record.address;
  size_.Put(record.bytes);
  ++count_;
}

void MemoryBatchEncoder::AppendShapes(std::string* out) const {
  using Batch = v1::MemoryBatch;
  static constexpr ShapeColumn kColumns[] = {
      {Batch::kShapeOperationFieldNumber, 2, 0, 16},
      {Batch::kShapeSessionFieldNumber, 0, 0, 64},
      {Batch::kShapeAgentIdFieldNumber, 2, 16, 16},
      {Batch::kShapeQueueIdFieldNumber, 1, 0, 32},
      {Batch::kShapeScratchFlagsFieldNumber, 2, 32, 16},
      {Batch::kShapeTidFieldNumber, 1, 32, 32},
  };
  AppendShapeColumns(kColumns, shapes_.keys(), out);
}

void MemoryBatchEncoder::EncodeTo(std::string* out) {
  using Batch = v1::MemoryBatch;
  out->clear();
  AppendField(Batch::kCountFieldNumber, count_, out);
  AppendField(Batch::kShapesFieldNumber, shapes_.keys().size(), out);
  AppendShapes(out);
  shape_.AppendTo(Batch::kShapeFieldNumber, out);
  correlation_.AppendTo(Batch::kCorrelationFieldNumber, out);
  begin_.AppendTo(Batch::kBeginFieldNumber, out);
  duration_.AppendTo(Batch::kDurationFieldNumber, out);
  address_.AppendTo(Batch::kAddressChangeFieldNumber, out);
  size_.AppendTo(Batch::kBytesFieldNumber, out);
  Clear();
}

void MemoryBatchEncoder::Clear() {
  count_ = 0;
  previous_correlation_ = previous_begin_ = previous_address_ = 0;
  shapes_.Clear();
  for (PackedColumn* column :
       {&shape_, &correlation_, &begin_, &duration_, &address_, &size_}) {
    column->Clear();
  }
}

namespace {

absl::Status CheckColumns(const v1::MemoryBatch& batch) {
  RETURN_IF_ERROR(CheckCounts(batch.count(), batch.shapes()));
  ColumnChecker shapes(batch.shapes());
  shapes.Check("shape_operation", batch.shape_operation());
  shapes.Check("shape_agent_id", batch.shape_agent_id());
  shapes.Check("shape_queue_id", batch.shape_queue_id());
  shapes.Check("shape_scratch_flags", batch.shape_scratch_flags());
  CheckCallShapes(batch, &shapes);
  RETURN_IF_ERROR(shapes.status());
  ColumnChecker records(batch.count());
  CheckCallRecords(batch, &records);
  records.Check("address_change", batch.address_change());
  records.Check("bytes", batch.bytes());
  return records.status();
}

}  // namespace

absl::Status DecodeMemoryBatch(absl::string_view payload,
                               std::vector<MemoryRecord>* records) {
  v1::MemoryBatch batch;
  if (!batch.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::DataLossError("payload is not a MemoryBatch");
  }
  RETURN_IF_ERROR(CheckColumns(batch));
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
