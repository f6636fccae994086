// Durations by name, for rocprofv3's *_stats.csv.
#ifndef ROCATTACH_USERSPACE_EXPORT_CSV_STATISTICS_H_
#define ROCATTACH_USERSPACE_EXPORT_CSV_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "userspace/export/csv_file.h"
#include "userspace/export/duration_statistics.h"

namespace rocattach {

// Durations of one domain, by name.
class NamedStatistics {
 public:
  // Names beyond this number are counted under one name.
  static constexpr size_t kMaxNames = size_t{1} << 18;
  static constexpr absl::string_view kOtherNames = "(other names)";

  // The entry of a name; it stays valid.
  DurationStatistics* Of(absl::string_view name);
  const std::map<std::string, DurationStatistics, std::less<>>& names() const {
    return names_;
  }
  // All names together.
  DurationStatistics Total() const;

 private:
  std::map<std::string, DurationStatistics, std::less<>> names_;
};

// Writes the rows, longest total first. Nothing without any.
absl::Status WriteStatistics(
    const std::map<std::string, DurationStatistics, std::less<>>& names, CsvFile* file);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_CSV_STATISTICS_H_
