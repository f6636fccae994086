// The output formats by name.
#ifndef ROCATTACH_USERSPACE_EXPORT_EXPORT_FORMAT_H_
#define ROCATTACH_USERSPACE_EXPORT_EXPORT_FORMAT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "userspace/export/common/export_options.h"
#include "userspace/export/common/export_sink.h"

namespace rocattach {

struct ExportFormat {
  absl::string_view name;         // "csv"
  absl::string_view description;  // a few words for the help
  // True if one output can hold several processes; otherwise each has its own.
  bool many_processes = false;
  // True if it can be written while data arrives (--follow).
  bool follows = false;
  // `base`: path of the output without "_kernel_trace.csv", "_results.json" and so on.
  // Its directory exists.
  absl::StatusOr<std::unique_ptr<ExportSink>> (*make)(const std::string& base,
                                                      const ExportOptions& options);
  // True if records are passed in rocprofv3's form: operations with the correlation ids
  // of the calls that submitted them, and ROCTx ranges as one record; see LaunchLinks
  // and MarkerRanges.
  bool as_rocprofv3 = false;
};

// All formats, in the order of the help.
absl::Span<const ExportFormat> ExportFormats();
// Null if there is no such format.
const ExportFormat* FindExportFormat(absl::string_view name);
std::vector<std::string> ExportFormatNames();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_EXPORT_FORMAT_H_
