// Profiles: totals by path, process -> queue -> kernel.
#ifndef ROCATTACH_USERSPACE_EXPORT_PROFILE_PROFILE_SINK_H_
#define ROCATTACH_USERSPACE_EXPORT_PROFILE_PROFILE_SINK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "userspace/export/common/export_options.h"
#include "userspace/export/common/export_sink.h"

namespace rocattach {

// BASE_results.pb.gz
absl::StatusOr<std::unique_ptr<ExportSink>> MakePprofSink(const std::string& base,
                                                          const ExportOptions& options);
// BASE_results.otlp.pb
absl::StatusOr<std::unique_ptr<ExportSink>> MakeOtlpProfileSink(
    const std::string& base, const ExportOptions& options);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_PROFILE_PROFILE_SINK_H_
