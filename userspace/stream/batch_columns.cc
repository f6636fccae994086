#include "userspace/stream/batch_columns.h"

#include <google/protobuf/descriptor.h>

#include "absl/strings/str_cat.h"

namespace rocattach {

absl::Status CheckCounts(uint64_t count, uint64_t shapes) {
  if (count > kMaxBatchRecords) {
    return absl::DataLossError(absl::StrCat("batch claims ", count, " records"));
  }
  if (shapes > count) {
    return absl::DataLossError(
        absl::StrCat("batch claims ", shapes, " shapes for ", count, " records"));
  }
  return absl::OkStatus();
}

absl::Status CheckColumns(const google::protobuf::Message& batch, RowsFunction rows) {
  const google::protobuf::Descriptor* type = batch.GetDescriptor();
  const google::protobuf::Reflection* fields = batch.GetReflection();
  for (int i = 0; i < type->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = type->field(i);
    if (!field->is_repeated() || !field->is_packed()) continue;
    const auto entries = static_cast<uint64_t>(fields->FieldSize(batch, field));
    const std::optional<uint64_t> wanted = rows(field->name());
    if (entries == 0 || !wanted.has_value() || entries == *wanted) continue;
    return absl::DataLossError(absl::StrCat("column ", field->name(), " has ", entries,
                                            " entries for ", *wanted, " rows"));
  }
  return absl::OkStatus();
}

}  // namespace rocattach
