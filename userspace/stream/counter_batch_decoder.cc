#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schemas/records.pb.h"
#include "userspace/base/status_macros.h"
#include "userspace/stream/batch_columns.h"
#include "userspace/stream/counter_batch.h"
#include "userspace/stream/counter_numbers.h"
#include "userspace/stream/frame.h"

namespace rocattach {
namespace {

// The last three numbers of a shape; the next ones are differences from these.
using LastNumbers = std::array<uint64_t, 3>;

absl::Status CheckCounterBatch(const v1::CounterBatch& batch) {
  RETURN_IF_ERROR(CheckCounts(batch.records(), batch.shapes()));
  if (batch.operations() > batch.records()) {
    return absl::DataLossError(absl::StrCat("batch claims ", batch.operations(),
                                            " operations for ", batch.records(),
                                            " records"));
  }
  return CheckColumns(batch, [&](absl::string_view name) -> std::optional<uint64_t> {
    if (absl::StartsWith(name, "shape_")) return batch.shapes();
    if (name == "operation_change" || name == "begin" || name == "duration" ||
        name == "pattern") {
      return batch.operations();
    }
    if (absl::EndsWith(name, "_change") && name != "instance_change") {
      return batch.records();
    }
    return std::nullopt;  // lengths and lists, which are checked as they are read
  });
}

// The shape of each record, and the number of records of each operation.
struct Rows {
  std::vector<uint32_t> shapes;
  std::vector<uint32_t> lengths;  // number of records of each operation
};

absl::Status FillRows(const v1::CounterBatch& batch, Rows* rows) {
  std::vector<uint32_t> starts;
  uint32_t shapes = 0;
  for (const uint32_t length : batch.pattern_length()) {
    if (length == 0 || length > batch.shapes() - shapes) {
      return absl::DataLossError(
          absl::StrCat("pattern ", starts.size(), " has ", length, " shapes"));
    }
    starts.push_back(shapes);
    shapes += length;
  }
  if (shapes != batch.shapes()) {
    return absl::DataLossError(
        absl::StrCat("patterns of ", shapes, " shapes in a batch of ", batch.shapes()));
  }
  rows->shapes.reserve(batch.records());
  rows->lengths.reserve(batch.operations());
  for (int i = 0; i < static_cast<int>(batch.operations()); ++i) {
    const uint32_t pattern = At(batch.pattern(), i);
    if (pattern >= starts.size()) {
      return absl::DataLossError(absl::StrCat("operation ", i, " has no pattern"));
    }
    const uint32_t length = batch.pattern_length(static_cast<int>(pattern));
    if (rows->shapes.size() + length > batch.records()) break;
    rows->lengths.push_back(length);
    for (uint32_t k = 0; k < length; ++k) {
      rows->shapes.push_back(starts[pattern] + k);
    }
  }
  if (rows->shapes.size() != batch.records() ||
      rows->lengths.size() != batch.operations()) {
    return absl::DataLossError(absl::StrCat("operations have not ", batch.records(),
                                            " records, as the batch claims"));
  }
  return absl::OkStatus();
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

// Decodes a batch's instances: lists of positions, and all values in one column.
class InstanceDecoder {
 public:
  explicit InstanceDecoder(const v1::CounterBatch& batch)
      : batch_(batch), last_(batch.shapes()) {}

  // `shapes`: the shape of each record.
  absl::Status Begin(const std::vector<uint32_t>& shapes) {
    size_t begin = 0;
    for (const uint32_t length : batch_.list_length()) {
      starts_.push_back(begin);
      begin += length;
    }
    starts_.push_back(begin);
    const auto positions = static_cast<size_t>(batch_.list_position_size());
    // If all positions are 0, their column may be absent.
    if (begin > kMaxBatchInstances || (positions != 0 && positions != begin)) {
      return absl::DataLossError(absl::StrCat("lists of ", begin, " instances have ",
                                              positions, " positions"));
    }
    size_t values = 0;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const uint32_t list = At(batch_.shape_list(), static_cast<int>(shapes[i]));
      if (list >= starts_.size()) {
        return absl::DataLossError(absl::StrCat("record ", i, " has no list"));
      }
      if (list != 0) values += starts_[list] - starts_[list - 1];
      if (values > kMaxBatchInstances) break;
    }
    const auto column = static_cast<size_t>(batch_.instance_change_size());
    if (values > kMaxBatchInstances || (column != 0 && column != values)) {
      return absl::DataLossError(
          absl::StrCat("batch has ", column, " values of ", values, " instances"));
    }
    return absl::OkStatus();
  }

  // Fills in the instances of the next record, which has this shape.
  void FillInstances(int shape, CounterRecord* record) {
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
  std::vector<size_t> starts_;  // start of each list, and the end of the last one
  std::vector<std::vector<uint64_t>> last_;
  int next_ = 0;
};

// Fills in sum, minimum and maximum of record `i`: differences from the last one of its
// shape.
void FillNumbers(const v1::CounterBatch& batch, int i, LastNumbers* last, int shape,
                 CounterRecord* record) {
  const bool whole = (At(batch.shape_flags(), shape) & kWholeValues) != 0;
  LastNumbers& n = *last;
  n[0] += Residual(batch.sum_change(), i);
  record->sum = ValueOf(n[0], whole);
  n[1] += Residual(batch.below_change(), i);
  n[2] += Residual(batch.above_change(), i);
  const double sum = whole && !IsWhole(record->sum) ? 0 : record->sum;
  const uint64_t middle = MiddleOf(sum, PerInstance(record->instances), whole);
  record->minimum = ValueOf(middle - n[1], whole);
  record->maximum = ValueOf(middle + n[2], whole);
}

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
  RETURN_IF_ERROR(CheckCounterBatch(batch));
  Rows rows;
  RETURN_IF_ERROR(FillRows(batch, &rows));
  InstanceDecoder instances(batch);
  RETURN_IF_ERROR(instances.Begin(rows.shapes));
  records->reserve(records->size() + rows.shapes.size());
  std::vector<LastNumbers> last(batch.shapes());
  uint64_t operation = 0, begin = 0, duration = 0;
  size_t next = 0;    // the next operation
  uint32_t left = 0;  // records left of the current one
  for (size_t i = 0; i < rows.shapes.size(); ++i) {
    if (left == 0) {
      const int at = static_cast<int>(next);
      operation += Residual(batch.operation_change(), at);
      begin += Residual(batch.begin(), at);
      duration = At(batch.duration(), at);
      left = rows.lengths[next];
      ++next;
    }
    --left;
    const auto shape = static_cast<int>(rows.shapes[i]);
    CounterRecord record;
    FillShape(batch, shape, &record);
    record.operation = operation;
    record.begin_ns = begin;
    record.end_ns = begin + duration;
    FillNumbers(batch, static_cast<int>(i), &last[rows.shapes[i]], shape, &record);
    instances.FillInstances(shape, &record);
    records->push_back(std::move(record));
  }
  return absl::OkStatus();
}

}  // namespace rocattach
