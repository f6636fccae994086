// NDJSON: one JSON object per line, with the keys of `rocattach dump --json`.
#ifndef ROCATTACH_USERSPACE_EXPORT_JSON_NDJSON_SINK_H_
#define ROCATTACH_USERSPACE_EXPORT_JSON_NDJSON_SINK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "userspace/export/common/export_options.h"
#include "userspace/export/common/export_sink.h"

namespace rocattach {

// BASE_results.ndjson; several processes may share it.
absl::StatusOr<std::unique_ptr<ExportSink>> MakeNdjsonSink(
    const std::string& base, const ExportOptions& options);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_JSON_NDJSON_SINK_H_
