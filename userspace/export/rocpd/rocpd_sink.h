// rocpd: one process in one SQLite database, as rocprofv3 writes it.
#ifndef ROCATTACH_USERSPACE_EXPORT_ROCPD_ROCPD_SINK_H_
#define ROCATTACH_USERSPACE_EXPORT_ROCPD_ROCPD_SINK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "userspace/export/common/export_options.h"
#include "userspace/export/common/export_sink.h"

namespace rocattach {

// BASE_results.db. With options.follow in WAL mode, readable at any time.
absl::StatusOr<std::unique_ptr<ExportSink>> MakeRocpdSink(const std::string& base,
                                                          const ExportOptions& options);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_ROCPD_ROCPD_SINK_H_
