#include "userspace/stream/api_batch.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schemas/records.pb.h"
#include "userspace/base/status_macros.h"
#include "userspace/stream/batch_columns.h"
#include "userspace/stream/frame.h"

namespace rocattach {
namespace {

// Approximate size of a shape on the wire.
constexpr size_t kShapeBytes = 12;

}  // namespace

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

size_t ApiBatchEncoder::bytes() const {
  return shape_.bytes() + correlation_.bytes() + begin_.bytes() + duration_.bytes() +
         ancestor_.bytes() + texts_.size() + shapes_.keys().size() * kShapeBytes;
}

bool ApiBatchEncoder::full() const {
  return count_ >= kMaxBatchRecords || bytes() >= batch_bytes_;
}

size_t ApiBatchEncoder::Append(absl::Span<const ApiCallRecord> records) {
  size_t taken = 0;
  for (; taken < records.size() && !full(); ++taken) {
    for (PackedColumn* column :
         {&shape_, &correlation_, &begin_, &duration_, &ancestor_}) {
      column->Reserve(1);
    }
    AppendOne(records[taken]);
  }
  return taken;
}

void ApiBatchEncoder::AppendOne(const ApiCallRecord& record) {
  uint16_t flags = record.flags & (kApiCallTextCut | kApiCallArguments);
  if (!record.text.empty()) flags |= kApiCallHasText;
  shape_.Put(shapes_.Index(
      {record.session, record.function | uint64_t{record.domain} << 16 |
                           uint64_t{flags} << 24 | uint64_t{record.tid} << 32}));
  correlation_.Put(ZigZag(record.correlation_id - previous_correlation_ - 1));
  previous_correlation_ = record.correlation_id;
  begin_.Put(ZigZag(record.begin_ns - previous_begin_));
  previous_begin_ = record.begin_ns;
  duration_.Put(record.end_ns - record.begin_ns);
  ancestor_.Put(
      record.ancestor_id == 0 ? 0 : ZigZag(record.ancestor_id - record.correlation_id));
  if (!record.text.empty()) {
    AppendVarint(uint64_t{v1::ApiCallBatch::kTextFieldNumber} << 3 | 2, &texts_);
    AppendVarint(record.text.size(), &texts_);
    texts_ += record.text;
  }
  ++count_;
}

void ApiBatchEncoder::AppendShapes(std::string* out) const {
  using Batch = v1::ApiCallBatch;
  static constexpr ShapeColumn kColumns[] = {
      {Batch::kShapeFlagsFieldNumber, 1, 24, 8},
      {Batch::kShapeSessionFieldNumber, 0, 0, 64},
      {Batch::kShapeDomainFieldNumber, 1, 16, 8},
      {Batch::kShapeFunctionFieldNumber, 1, 0, 16},
      {Batch::kShapeTidFieldNumber, 1, 32, 32},
  };
  AppendShapeColumns(kColumns, shapes_.keys(), out);
}

void ApiBatchEncoder::EncodeTo(std::string* out) {
  using Batch = v1::ApiCallBatch;
  out->clear();
  AppendField(Batch::kCountFieldNumber, count_, out);
  AppendField(Batch::kShapesFieldNumber, shapes_.keys().size(), out);
  AppendShapes(out);
  shape_.AppendTo(Batch::kShapeFieldNumber, out);
  correlation_.AppendTo(Batch::kCorrelationFieldNumber, out);
  begin_.AppendTo(Batch::kBeginFieldNumber, out);
  duration_.AppendTo(Batch::kDurationFieldNumber, out);
  ancestor_.AppendTo(Batch::kAncestorFieldNumber, out);
  *out += texts_;
  Clear();
}

void ApiBatchEncoder::Clear() {
  count_ = 0;
  previous_correlation_ = previous_begin_ = 0;
  shapes_.Clear();
  texts_.clear();
  for (PackedColumn* column :
       {&shape_, &correlation_, &begin_, &duration_, &ancestor_}) {
    column->Clear();
  }
}

namespace {

absl::Status CheckColumns(const v1::ApiCallBatch& batch) {
  RETURN_IF_ERROR(CheckCounts(batch.count(), batch.shapes()));
  ColumnChecker shapes(batch.shapes());
  shapes.Check("shape_flags", batch.shape_flags());
  shapes.Check("shape_domain", batch.shape_domain());
  shapes.Check("shape_function", batch.shape_function());
  CheckCallShapes(batch, &shapes);
  RETURN_IF_ERROR(shapes.status());
  ColumnChecker records(batch.count());
  CheckCallRecords(batch, &records);
  records.Check("ancestor", batch.ancestor());
  return records.status();
}

}  // namespace

absl::Status DecodeApiBatch(absl::string_view payload,
                            std::vector<ApiCallRecord>* records) {
  v1::ApiCallBatch batch;
  if (!batch.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::DataLossError("payload is not an ApiCallBatch");
  }
  RETURN_IF_ERROR(CheckColumns(batch));
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
