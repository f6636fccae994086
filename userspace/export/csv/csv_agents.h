// rocprofv3's agent_info.csv.
#ifndef ROCATTACH_USERSPACE_EXPORT_CSV_CSV_AGENTS_H_
#define ROCATTACH_USERSPACE_EXPORT_CSV_CSV_AGENTS_H_

#include "absl/status/status.h"
#include "userspace/export/common/export_process.h"
#include "userspace/export/csv/csv_file.h"

namespace rocattach {

// Writes a row for each agent, by node; data that recordings lack is 0 or empty. Writes
// nothing if there are no agents.
absl::Status WriteAgents(const ExportProcess& process, CsvFile* file);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_CSV_CSV_AGENTS_H_
