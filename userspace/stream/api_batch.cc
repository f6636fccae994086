#include "userspace/stream/api_batch.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schemas/records.pb.h"
#include "userspace/base/status_macros.h"
#include "userspace/stream/batch_columns.h"
#include "userspace/stream/frame.h"

namespace rocattach {

std::vector<ApiArgument> ArgumentsOf(const ApiCallRecord& call) {
  std::vector<ApiArgument> arguments;
  if ((call.flags & kApiCallArguments) == 0) return arguments;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(call.text), '\n')) {
    const size_t end = line.find('=');
    if (end == line.npos) continue;
    arguments.push_back({line.substr(0, end), line.substr(end + 1)});
  }
  return arguments;
}

ApiBatchEncoder::ApiBatchEncoder(size_t batch_bytes)
    : BatchEncoder(batch_bytes, {v1::ApiCallBatch::kShapeFieldNumber,
                                 v1::ApiCallBatch::kCorrelationFieldNumber,
                                 v1::ApiCallBatch::kBeginFieldNumber,
                                 v1::ApiCallBatch::kDurationFieldNumber,
                                 v1::ApiCallBatch::kAncestorFieldNumber}) {}

size_t ApiBatchEncoder::Append(absl::Span<const ApiCallRecord> records) {
  size_t taken = 0;
  for (; taken < records.size() && !full(); ++taken) {
    columns_.Reserve(1);
    AppendOne(records[taken]);
  }
  return taken;
}

void ApiBatchEncoder::AppendOne(const ApiCallRecord& record) {
  uint16_t flags = record.flags & (kApiCallTextCut | kApiCallArguments);
  if (!record.text.empty()) flags |= kApiCallHasText;
  columns_[kShape].Put(shapes_.Index(
      {record.session, record.function | uint64_t{record.domain} << 16 |
                           uint64_t{flags} << 24 | uint64_t{record.tid} << 32}));
  columns_[kCorrelation].PutChange(record.correlation_id, 1);
  columns_[kBegin].PutChange(record.begin_ns);
  columns_[kDuration].Put(record.end_ns - record.begin_ns);
  columns_[kAncestor].Put(
      record.ancestor_id == 0 ? 0 : ZigZag(record.ancestor_id - record.correlation_id));
  if (!record.text.empty()) {
    AppendVarint(uint64_t{v1::ApiCallBatch::kTextFieldNumber} << 3 | 2, &texts_);
    AppendVarint(record.text.size(), &texts_);
    texts_ += record.text;
    other_bytes_ = texts_.size();
  }
  ++count_;
}

void ApiBatchEncoder::EncodeTo(std::string* out) {
  using Batch = v1::ApiCallBatch;
  static constexpr ShapeColumn kShapeColumns[] = {
      {Batch::kShapeFlagsFieldNumber, 1, 24, 8},
      {Batch::kShapeSessionFieldNumber, 0, 0, 64},
      {Batch::kShapeDomainFieldNumber, 1, 16, 8},
      {Batch::kShapeFunctionFieldNumber, 1, 0, 16},
      {Batch::kShapeTidFieldNumber, 1, 32, 32},
  };
  out->clear();
  AppendField(Batch::kCountFieldNumber, count_, out);
  AppendShapesTo(Batch::kShapesFieldNumber, kShapeColumns, out);
  columns_.AppendTo(out);
  *out += texts_;
  texts_.clear();
  Clear();
}

absl::Status DecodeApiBatch(absl::string_view payload,
                            std::vector<ApiCallRecord>* records) {
  v1::ApiCallBatch batch;
  if (!batch.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::DataLossError("payload is not an ApiCallBatch");
  }
  RETURN_IF_ERROR(CheckBatch(batch));
  const size_t before = records->size();
  records->reserve(before + batch.count());
  uint64_t correlation = 0, begin = 0;
  int text = 0;
  for (int i = 0; i < static_cast<int>(batch.count()); ++i) {
    const uint32_t shape = At(batch.shape(), i);
    const int at = static_cast<int>(shape);
    const uint32_t flags = shape < batch.shapes() ? At(batch.shape_flags(), at) : 0;
    if (shape >= batch.shapes() ||
        ((flags & kApiCallHasText) && text >= batch.text_size())) {
      records->resize(before);
      return absl::DataLossError(
          absl::StrCat("record ", i, " has no shape, or no text"));
    }
    ApiCallRecord record;
    record.session = At(batch.shape_session(), at);
    record.domain = static_cast<uint16_t>(At(batch.shape_domain(), at));
    record.function = static_cast<uint16_t>(At(batch.shape_function(), at));
    record.tid = At(batch.shape_tid(), at);
    record.flags = static_cast<uint16_t>(flags);
    record.correlation_id = correlation += 1 + Residual(batch.correlation(), i);
    record.begin_ns = begin += Residual(batch.begin(), i);
    record.end_ns = begin + At(batch.duration(), i);
    const uint64_t ancestor = Residual(batch.ancestor(), i);
    record.ancestor_id = ancestor == 0 ? 0 : correlation + ancestor;
    if (flags & kApiCallHasText) record.text = batch.text(text++);
    records->push_back(std::move(record));
  }
  return absl::OkStatus();
}

}  // namespace rocattach
