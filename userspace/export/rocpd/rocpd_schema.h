// Tables and views of a rocpd database.
#ifndef ROCATTACH_USERSPACE_EXPORT_ROCPD_ROCPD_SCHEMA_H_
#define ROCATTACH_USERSPACE_EXPORT_ROCPD_ROCPD_SCHEMA_H_

#include <string>

#include "absl/strings/string_view.h"

namespace rocattach {

// A version of the schema, by its name in kRocpdSchemas.
class RocpdSchema {
 public:
  // `guid`: with hyphens, as in the column of that name.
  RocpdSchema(absl::string_view version, absl::string_view guid);

  // Table names end with this: an underscore and the guid, with underscores.
  const std::string& suffix() const { return suffix_; }
  std::string Table(absl::string_view name) const;

  // Everything: tables, the views with their plain names, the views of data, summaries
  // and rocpd_metadata's rows. No index: viewers create their own.
  std::string Sql() const;

  // What a version has.
  bool has_nic() const { return minor_ >= 1; }
  bool has_graphs() const { return minor_ >= 2; }
  bool has_spm() const { return minor_ >= 3; }

 private:
  std::string Tables() const;
  std::string Views() const;
  std::string Metadata() const;

  const std::string version_;
  const std::string guid_;
  std::string suffix_;
  int minor_;  // the last number of the version
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_ROCPD_ROCPD_SCHEMA_H_
