// A trace for Perfetto: kernels and copies on the tracks of their GPUs, API calls and
// markers on those of their threads, and counters.
#ifndef ROCATTACH_USERSPACE_EXPORT_PFTRACE_PFTRACE_SINK_H_
#define ROCATTACH_USERSPACE_EXPORT_PFTRACE_PFTRACE_SINK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "userspace/export/common/export_options.h"
#include "userspace/export/common/export_sink.h"

namespace rocattach {

// BASE_results.pftrace
absl::StatusOr<std::unique_ptr<ExportSink>> MakePftraceSink(
    const std::string& base, const ExportOptions& options);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_PFTRACE_PFTRACE_SINK_H_
