#include "userspace/export/rocpd/rocpd_schema.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace rocattach {

RocpdSchema::RocpdSchema(absl::string_view version, absl::string_view guid)
    : version_(version),
      guid_(guid),
      suffix_(absl::StrCat("_", absl::StrReplaceAll(guid, {{"-", "_"}}))) {}

std::string RocpdSchema::Table(absl::string_view name) const {
  return absl::StrCat("\"rocpd_", name, suffix_, "\"");
}

std::string RocpdSchema::Sql() const {
  return absl::StrReplaceAll(RocpdSql(version_),
                             {{"{{guid}}", guid_}, {"{{suffix}}", suffix_}});
}

}  // namespace rocattach
