#include "userspace/export/export_format.h"

#include "userspace/export/csv_sink.h"

namespace rocattach {

absl::Span<const ExportFormat> ExportFormats() {
  static constexpr ExportFormat kFormats[] = {
      {"csv", "the files of rocprofv3", false, true, MakeCsvSink},
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
