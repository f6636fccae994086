// rocprofv3's agent_info.csv.
#ifndef ROCATTACH_USERSPACE_EXPORT_CSV_AGENTS_H_
#define ROCATTACH_USERSPACE_EXPORT_CSV_AGENTS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "userspace/export/csv_file.h"
#include "userspace/export/export_process.h"

namespace rocattach {

// A row for each agent, by node; what recordings do not have is 0 or empty. Nothing
// without agents.
absl::Status WriteAgents(const ExportProcess& process, CsvFile* file);

// What the kernel driver says of the agent's node under this name; `otherwise` if the
// recording does not have it.
uint64_t DriverProperty(const v1::Agent& agent, absl::string_view name,
                        uint64_t otherwise);

// "gfx90a" as rocprofv3 has it: 90010; 0 for other names.
uint32_t GfxTargetVersion(absl::string_view name);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_CSV_AGENTS_H_
