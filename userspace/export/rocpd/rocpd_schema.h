// Tables and views of a rocpd database.
#ifndef ROCATTACH_USERSPACE_EXPORT_ROCPD_ROCPD_SCHEMA_H_
#define ROCATTACH_USERSPACE_EXPORT_ROCPD_ROCPD_SCHEMA_H_

#include <string>

#include "absl/strings/string_view.h"

namespace rocattach {

// One version of the schema; its SQL is schema/VERSION.sql.
class RocpdSchema {
 public:
  // `version`: one of kRocpdSchemas. `guid`: with hyphens, as in the column of that name.
  RocpdSchema(absl::string_view version, absl::string_view guid);

  // The end of table names: an underscore and the guid, with underscores.
  const std::string& suffix() const { return suffix_; }
  std::string Table(absl::string_view name) const;

  // Creates the tables and views, and the rows of rocpd_metadata.
  std::string Sql() const;

  // True if counter values have columns for their place in the GPU.
  bool has_spm() const { return version_ >= "3.0.3"; }

 private:
  const std::string version_;
  const std::string guid_;
  const std::string suffix_;
};

// The text of schema/VERSION.sql, which is compiled in; empty if there is none.
absl::string_view RocpdSql(absl::string_view version);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_ROCPD_ROCPD_SCHEMA_H_
