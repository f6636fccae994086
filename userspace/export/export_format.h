// The output formats by name.
#ifndef ROCATTACH_USERSPACE_EXPORT_EXPORT_FORMAT_H_
#define ROCATTACH_USERSPACE_EXPORT_EXPORT_FORMAT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "userspace/export/counter_facts.h"
#include "userspace/export/export_sink.h"

namespace rocattach {

// How agents are numbered in text: rocprofv3's --agent-index.
enum class AgentIndex { kAbsolute, kRelative, kTypeRelative };

// What all sinks of a conversion share.
struct ExportOptions {
  // Replace outputs that exist.
  bool force = false;
  // The inputs are still being written: outputs have their final names at once, and can
  // be read at any time.
  bool follow = false;
  AgentIndex agent_index = AgentIndex::kRelative;
  // Of kRocpdSchemas.
  std::string rocpd_schema = "3.0.3";
  // Of compute-workload: the folder, and the name of the workload. Empty: both follow
  // from the base name of the output.
  std::string workload_directory;
  std::string workload_name;
  // Never null.
  std::shared_ptr<CounterFacts> counter_facts = std::make_shared<CounterFacts>();
};

inline constexpr absl::string_view kRocpdSchemas[] = {"3.0.0", "3.0.1", "3.0.2",
                                                      "3.0.3"};

struct ExportFormat {
  absl::string_view name;         // "csv"
  absl::string_view description;  // a few words for the help
  // One output can hold several processes; else each has one of its own.
  bool many_processes = false;
  // It can be written while data arrives (--follow).
  bool follows = false;
  // `base`: path of the output without "_kernel_trace.csv", "_results.json" and so on.
  // Its directory exists.
  absl::StatusOr<std::unique_ptr<ExportSink>> (*make)(const std::string& base,
                                                      const ExportOptions& options);
  // Records are told as rocprofv3 has them: operations with the correlation ids of the
  // calls that submitted them, and ROCTx ranges as one record; see LaunchLinks and
  // MarkerRanges.
  bool as_rocprofv3 = false;
};

// All of them, in the order of the help.
absl::Span<const ExportFormat> ExportFormats();
// Null if there is no such format.
const ExportFormat* FindExportFormat(absl::string_view name);
std::vector<std::string> ExportFormatNames();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_EXPORT_FORMAT_H_
