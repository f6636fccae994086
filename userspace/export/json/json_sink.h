// JSON as rocprofv3 writes it: {"rocprofiler-sdk-tool": [one object per process]}.
#ifndef ROCATTACH_USERSPACE_EXPORT_JSON_JSON_SINK_H_
#define ROCATTACH_USERSPACE_EXPORT_JSON_JSON_SINK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "userspace/export/common/export_options.h"
#include "userspace/export/common/export_sink.h"

namespace rocattach {

// BASE_results.json; several processes may share it.
absl::StatusOr<std::unique_ptr<ExportSink>> MakeJsonSink(const std::string& base,
                                                         const ExportOptions& options);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_JSON_JSON_SINK_H_
