// Computes the values that were requested by name from the readings of a pass.
#ifndef ROCATTACH_USERSPACE_SESSION_REQUESTED_VALUES_H_
#define ROCATTACH_USERSPACE_SESSION_REQUESTED_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "userspace/session/compiled_plan.h"
#include "userspace/session/session_backend.h"
#include "userspace/session/session_record.h"

namespace rocattach {

// The value of one of kAgentConstants; nullopt if the GPU's property is not known.
std::optional<double> AgentConstant(const TargetGpu& gpu, const std::string& name);

// The passes of one architecture, with names looked up once, because it is used for
// every dispatch. The plan must outlive it. Immutable, so any number of threads may use
// it.
class RequestedValues {
 public:
  // `passes` belongs to `architecture`, and that to `plan`. A value's number is its
  // name's position in `names`; other values are skipped.
  RequestedValues(const CompiledPlan& plan, const PlanArchitecture& architecture,
                  const PassAssignment& passes, const std::vector<std::string>& names);

  // Appends what `pass` measured: hardware counters as sums, metrics if the pass
  // measured all of their counters. Values that are not available are omitted.
  void Append(uint32_t pass, const TargetGpu& gpu,
              absl::Span<const rocattach_counter_value> readings,
              std::vector<RecordValue>* values) const;

 private:
  struct Value {
    uint32_t number = 0;
    uint16_t counter = 0;                   // index of plan_.counter_names
    const DerivedMetric* metric = nullptr;  // if set, used instead of `counter`
  };
  std::optional<double> Evaluate(
      const DerivedMetric& metric, const TargetGpu& gpu,
      absl::Span<const rocattach_counter_value> readings) const;

  const CompiledPlan& plan_;
  const ArchitectureCounters& counters_;
  std::vector<std::vector<Value>> passes_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_REQUESTED_VALUES_H_
