// Writes the folder that rocprof-compute analyzes.
#ifndef ROCATTACH_USERSPACE_EXPORT_WORKLOAD_COMPUTE_SINK_H_
#define ROCATTACH_USERSPACE_EXPORT_WORKLOAD_COMPUTE_SINK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "userspace/export/common/export_options.h"
#include "userspace/export/common/export_sink.h"

namespace rocattach {

// BASE_workload/, or options.workload_directory, with sysinfo.csv,
// profiling_config.yaml, pmc_perf.csv and results_pmc_perf.csv.gz. It exists only if a
// counter was measured.
absl::StatusOr<std::unique_ptr<ExportSink>> MakeComputeSink(
    const std::string& base, const ExportOptions& options);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_WORKLOAD_COMPUTE_SINK_H_
