// One process of rocprofv3's JSON: its records are kept in spill files until everything
// that precedes them is known.
#ifndef ROCATTACH_USERSPACE_EXPORT_JSON_JSON_PROCESS_H_
#define ROCATTACH_USERSPACE_EXPORT_JSON_JSON_PROCESS_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "userspace/export/common/counter_facts.h"
#include "userspace/export/common/export_process.h"
#include "userspace/export/common/export_sink.h"
#include "userspace/export/common/json_text.h"
#include "userspace/export/common/named_statistics.h"
#include "userspace/export/common/output_file.h"
#include "userspace/export/json/spill_file.h"

namespace rocattach {

class JsonProcess {
 public:
  // `directory`: for the spill files.
  JsonProcess(const std::string& directory, CounterFacts* facts);

  absl::Status Add(const ExportProcess& process, const rocattach_dispatch& record);
  absl::Status Add(const ExportProcess& process, const rocattach_copy& record);
  absl::Status Add(const ExportProcess& process, const ApiCallRecord& record);
  absl::Status Add(const ExportProcess& process, const MemoryRecord& record);
  absl::Status Add(const ExportProcess& process, const CountedDispatch& counted);

  // Appends the process's object.
  absl::Status WriteTo(const ExportProcess& process, OutputFile* out);

 private:
  // A list of records.
  struct Section {
    explicit Section(const std::string& directory) : text(directory) {}
    // Begins the next record's object.
    JsonObject Begin();
    SpillFile text;
  };

  static uint64_t AgentHandle(const ExportProcess& process, uint32_t agent);
  // A counter's number in this file.
  uint64_t CounterHandle(const ExportProcess& process, const CounterRecord& value);
  void AddDispatchInfo(const ExportProcess& process, const rocattach_dispatch& r,
                       JsonObject* json);

  void WriteHead(const ExportProcess& process, std::string* out) const;
  void WriteAgents(const ExportProcess& process, std::string* out) const;
  void WriteCounters(const ExportProcess& process, std::string* out) const;
  void WriteSymbols(const ExportProcess& process, std::string* out) const;
  void WriteSummary(std::string* out) const;

  CounterFacts* const facts_;
  Section dispatches_, copies_, memory_, scratch_, counters_, marker_texts_;
  std::array<Section, 4> apis_;  // by v1::ApiDomain
  // By agent and name.
  absl::flat_hash_map<std::pair<uint64_t, std::string>, uint64_t> counter_handles_;
  NamedStatistics kernel_statistics_, copy_statistics_, memory_statistics_,
      scratch_statistics_;
  std::array<NamedStatistics, 4> api_statistics_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_JSON_JSON_PROCESS_H_
