// rocprofv3's *_stats.csv.
#ifndef ROCATTACH_USERSPACE_EXPORT_CSV_CSV_STATISTICS_H_
#define ROCATTACH_USERSPACE_EXPORT_CSV_CSV_STATISTICS_H_

#include "absl/status/status.h"
#include "userspace/export/common/named_statistics.h"
#include "userspace/export/csv/csv_file.h"

namespace rocattach {

// Writes a row for each name that has calls, longest total first. No file without any.
absl::Status WriteStatistics(const NamedStatistics::Names& names, CsvFile* file);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_CSV_CSV_STATISTICS_H_
