// Options that all outputs of a conversion share.
#ifndef ROCATTACH_USERSPACE_EXPORT_COMMON_EXPORT_OPTIONS_H_
#define ROCATTACH_USERSPACE_EXPORT_COMMON_EXPORT_OPTIONS_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "userspace/export/common/counter_facts.h"

namespace rocattach {

// Numbering of agents in text: rocprofv3's --agent-index.
enum class AgentIndex { kAbsolute, kRelative, kTypeRelative };

struct ExportOptions {
  // Replace existing outputs.
  bool force = false;
  // The inputs are still being written: outputs have their final names at once, and can
  // be read at any time.
  bool follow = false;
  AgentIndex agent_index = AgentIndex::kRelative;
  // One of kRocpdSchemas.
  std::string rocpd_schema = "3.0.3";
  // For compute-workload: the folder, and the name of the workload. If empty, both are
  // derived from the base name of the output.
  std::string workload_directory;
  std::string workload_name;
  // Never null.
  std::shared_ptr<CounterFacts> counter_facts = std::make_shared<CounterFacts>();
};

inline constexpr absl::string_view kRocpdSchemas[] = {"3.0.0", "3.0.1", "3.0.2",
                                                      "3.0.3"};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_COMMON_EXPORT_OPTIONS_H_
