#include "userspace/stream/copy_batch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schemas/records.pb.h"
#include "userspace/base/status_macros.h"
#include "userspace/stream/batch_columns.h"
#include "userspace/stream/frame.h"

namespace rocattach {
namespace {

constexpr size_t kBlockRecords = 256;
constexpr size_t kShapeBytes = 12;

// The shape's columns in v1::CopyBatch.
constexpr ShapeColumn kShapeColumns[] = {
    {5, 0, 0, 16}, {6, 0, 16, 16},  {7, 0, 32, 16}, {8, 0, 48, 16},
    {9, 1, 0, 16}, {10, 1, 32, 32}, {11, 2, 0, 32}};

}  // namespace

size_t CopyBatchEncoder::bytes() const {
  return shape_.bytes() + correlation_.bytes() + enqueue_.bytes() + start_.bytes() +
         duration_.bytes() + bytes_.bytes() + src_.bytes() + dst_.bytes() +
         shapes_.keys().size() * kShapeBytes;
}

bool CopyBatchEncoder::full() const {
  return count_ >= kMaxBatchRecords || bytes() >= batch_bytes_;
}

size_t CopyBatchEncoder::Append(absl::Span<const rocattach_copy> records) {
  size_t taken = 0;
  while (taken < records.size() && !full()) {
    size_t block =
        std::min({kBlockRecords, records.size() - taken, kMaxBatchRecords - count_});
    for (PackedColumn* column : {&shape_, &correlation_, &enqueue_, &start_, &duration_,
                                 &bytes_, &src_, &dst_}) {
      column->Reserve(block);
    }
    for (const rocattach_copy& record : records.subspan(taken, block))
      AppendOne(record);
    taken += block;
    count_ += block;
  }
  return taken;
}

void CopyBatchEncoder::AppendOne(const rocattach_copy& record) {
  Shapes::Key key = {
      uint64_t{record.flags} | uint64_t{record.src_agent_id} << 16 |
          uint64_t{record.dst_agent_id} << 32 | uint64_t{record.direction} << 48,
      uint64_t{record.engine} | uint64_t{record.tid} << 32, record.hip_stream};
  shape_.Put(shapes_.Index(key));
  correlation_.Put(ZigZag(record.correlation_id - previous_correlation_ - 1));
  previous_correlation_ = record.correlation_id;
  enqueue_.Put(ZigZag(record.enqueue_ns - previous_enqueue_));
  previous_enqueue_ = record.enqueue_ns;
  SlotState& slot = slots_[record.direction % kBatchSlots];
  start_.Put(
      ZigZag(record.start_ns - PredictStart(record.flags, record.enqueue_ns, slot)));
  duration_.Put(record.end_ns - record.start_ns);
  slot.last_end = std::max(slot.last_end, record.end_ns);
  bytes_.Put(ZigZag(record.bytes - previous_bytes_));
  previous_bytes_ = record.bytes;
  src_.Put(ZigZag(record.src_address - previous_src_));
  previous_src_ = record.src_address;
  dst_.Put(ZigZag(record.dst_address - previous_dst_));
  previous_dst_ = record.dst_address;
  NoteTimes(record.start_ns, record.end_ns, &first_start_ns_, &last_end_ns_);
}

void CopyBatchEncoder::EncodeTo(std::string* out) {
  out->clear();
  AppendField(v1::CopyBatch::kCountFieldNumber, count_, out);
  AppendField(v1::CopyBatch::kFirstStartNsFieldNumber, first_start_ns_, out);
  AppendField(v1::CopyBatch::kLastEndNsFieldNumber, last_end_ns_, out);
  AppendField(v1::CopyBatch::kShapesFieldNumber, shapes_.keys().size(), out);
  AppendShapeColumns(kShapeColumns, shapes_.keys(), out);
  shape_.AppendTo(v1::CopyBatch::kShapeFieldNumber, out);
  correlation_.AppendTo(v1::CopyBatch::kCorrelationFieldNumber, out);
  enqueue_.AppendTo(v1::CopyBatch::kEnqueueFieldNumber, out);
  start_.AppendTo(v1::CopyBatch::kStartFieldNumber, out);
  duration_.AppendTo(v1::CopyBatch::kDurationFieldNumber, out);
  bytes_.AppendTo(v1::CopyBatch::kBytesChangeFieldNumber, out);
  src_.AppendTo(v1::CopyBatch::kSrcAddressChangeFieldNumber, out);
  dst_.AppendTo(v1::CopyBatch::kDstAddressChangeFieldNumber, out);
  Clear();
}

void CopyBatchEncoder::Clear() {
  count_ = 0;
  first_start_ns_ = last_end_ns_ = 0;
  previous_correlation_ = previous_enqueue_ = previous_bytes_ = 0;
  previous_src_ = previous_dst_ = 0;
  slots_ = {};
  shapes_.Clear();
  for (PackedColumn* column : {&shape_, &correlation_, &enqueue_, &start_, &duration_,
                               &bytes_, &src_, &dst_}) {
    column->Clear();
  }
}

namespace {

absl::Status CheckCopyColumns(const v1::CopyBatch& batch) {
  RETURN_IF_ERROR(CheckCounts(batch.count(), batch.shapes()));
  ColumnChecker shapes(batch.shapes());
  shapes.Check("shape_flags", batch.shape_flags());
  shapes.Check("shape_src_agent_id", batch.shape_src_agent_id());
  shapes.Check("shape_dst_agent_id", batch.shape_dst_agent_id());
  shapes.Check("shape_direction", batch.shape_direction());
  shapes.Check("shape_engine", batch.shape_engine());
  shapes.Check("shape_tid", batch.shape_tid());
  shapes.Check("shape_hip_stream", batch.shape_hip_stream());
  RETURN_IF_ERROR(shapes.status());
  ColumnChecker records(batch.count());
  records.Check("shape", batch.shape());
  records.Check("correlation", batch.correlation());
  records.Check("enqueue", batch.enqueue());
  records.Check("start", batch.start());
  records.Check("duration", batch.duration());
  records.Check("bytes_change", batch.bytes_change());
  records.Check("src_address_change", batch.src_address_change());
  records.Check("dst_address_change", batch.dst_address_change());
  return records.status();
}

}  // namespace

absl::Status DecodeCopyBatch(absl::string_view payload,
                             std::vector<rocattach_copy>* records) {
  v1::CopyBatch batch;
  if (!batch.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::DataLossError("payload is not a CopyBatch");
  }
  RETURN_IF_ERROR(CheckCopyColumns(batch));
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
