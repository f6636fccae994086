// Packs any list of counters into hardware passes.
//
// A pass has at most as many counters of each block as the block has. Blocks are
// independent, and a counter takes 1, 2, 4 or 8 of its block's counters, so the number
// of passes is the largest that any block needs, and first-fit by decreasing size
// achieves it (sizes divide each other, so it does not matter which gap a counter
// fills). A counter that follows another (an accumulator) is glued to it and may be in
// a pass only once; this adds the bound "passes ≥ accumulators of one name".
//
// Within that number of passes the planner puts related counters into one pass: those
// of a metric, then the groups of the request. If there is room left, it measures a
// counter in several passes, so that as many metrics as possible are complete in one
// pass.
#ifndef ROCATTACH_USERSPACE_COUNTERS_PASS_PLANNER_H_
#define ROCATTACH_USERSPACE_COUNTERS_PASS_PLANNER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/counters/catalog.h"

namespace rocattach {

// A list of counters and metrics that should be measured together if possible.
using CounterNames = std::vector<std::string>;

struct PassOptions {
  // Refuse a request that needs more than one pass.
  bool single_pass = false;
  // Each group of the request becomes a separate pass (or several), in order, as with
  // rocprofv3's pmc_groups; else all groups are packed together.
  bool keep_groups = false;
};

// Counters that are measured together.
struct CounterPass {
  CounterNames counters;  // hardware counters, a follower right after its leader
};

// A requested name, and the passes that its value comes from.
struct PlannedValue {
  std::string name;
  bool metric = false;
  // Passes that measure all it needs. Empty for a metric that is complete in no pass:
  // such a value is mixed, computed from means over different dispatches, and marked as
  // such.
  std::vector<size_t> passes;
  bool mixed() const { return passes.empty(); }
};

struct PassAssignment {
  std::string architecture;
  std::vector<CounterPass> passes;
  std::vector<PlannedValue> values;  // the requested names, each once, in their order
};

// Names come from --pmc, sets, sections and files; unknown ones are COUNTER_NOT_FOUND
// with the nearest names, and a counter that no pass can hold is
// COUNTER_INFORMATION_MISSING. single_pass: INVALID_ARGUMENTS with the number of passes
// needed and the block that is too small. An empty request is an empty plan.
absl::StatusOr<PassAssignment> PlanPasses(const ArchitectureCounters& architecture,
                                          const std::vector<CounterNames>& groups,
                                          const PassOptions& options);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_COUNTERS_PASS_PLANNER_H_
