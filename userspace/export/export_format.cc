#include "userspace/export/export_format.h"

#include "userspace/export/csv/csv_sink.h"
#include "userspace/export/json/json_sink.h"
#include "userspace/export/json/ndjson_sink.h"
#include "userspace/export/pftrace/pftrace_sink.h"
#include "userspace/export/profile/profile_sink.h"
#include "userspace/export/rocpd/rocpd_sink.h"
#include "userspace/export/workload/compute_sink.h"

namespace rocattach {

absl::Span<const ExportFormat> ExportFormats() {
  static constexpr ExportFormat kFormats[] = {
      {"csv", "the files of rocprofv3", false, true, MakeCsvSink, true},
      {"json", "the file of rocprofv3", true, false, MakeJsonSink, true},
      {"ndjson", "one JSON object a line", true, true, MakeNdjsonSink},
      {"rocpd", "an SQLite database", false, true, MakeRocpdSink, true},
      {"pftrace", "a trace for Perfetto", true, true, MakePftraceSink},
      {"pprof", "a profile for pprof", true, false, MakePprofSink},
      {"otlp-profile", "OpenTelemetry profiles", true, false, MakeOtlpProfileSink},
      {"compute-workload", "a folder for rocprof-compute", true, false,
       MakeComputeSink},
  };
  return kFormats;
}

const ExportFormat* FindExportFormat(absl::string_view name) {
  for (const ExportFormat& format : ExportFormats()) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

std::vector<std::string> ExportFormatNames() {
  std::vector<std::string> names;
  for (const ExportFormat& format : ExportFormats()) names.emplace_back(format.name);
  return names;
}

}  // namespace rocattach
