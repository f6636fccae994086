// The CSV files of rocprofv3 for one process.
#ifndef ROCATTACH_USERSPACE_EXPORT_CSV_CSV_SINK_H_
#define ROCATTACH_USERSPACE_EXPORT_CSV_CSV_SINK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "userspace/export/common/export_options.h"
#include "userspace/export/common/export_sink.h"

namespace rocattach {

// BASE_kernel_trace.csv and so on; each exists only if it has a row.
absl::StatusOr<std::unique_ptr<ExportSink>> MakeCsvSink(const std::string& base,
                                                        const ExportOptions& options);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_CSV_CSV_SINK_H_
