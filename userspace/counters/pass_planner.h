// Packs any list of counters into hardware passes.
//
// A pass holds, of every block, no more counters than the block has. Blocks do not
// share anything, and a counter takes 1, 2, 4 or 8 of its block's counters, so the
// number of passes is the largest that any one block needs, and first-fit by decreasing
// size reaches it (sizes divide each other: it does not matter which gap a counter
// fills). A counter that follows another (an accumulator) is glued to it and may stand
// in a pass once; that adds the bound "passes ≥ accumulators of one name".
//
// Within that number of passes the planner puts what belongs together into one pass:
// the counters of a metric, then the groups of the request. Where room is left it
// measures a counter in several passes, so that as many metrics as possible are whole
// in one pass.
#ifndef ROCATTACH_USERSPACE_COUNTERS_PASS_PLANNER_H_
#define ROCATTACH_USERSPACE_COUNTERS_PASS_PLANNER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/counters/catalog.h"

namespace rocattach {

// A list of counters and metrics that somebody wants together if possible.
using CounterNames = std::vector<std::string>;

struct PassOptions {
  // Refuse a request that needs more than one pass.
  bool single_pass = false;
  // Each group of the request becomes a pass (or several) of its own, in their order,
  // as rocprofv3's pmc_groups do; else all groups are packed together.
  bool keep_groups = false;
};

// What is measured together.
struct CounterPass {
  CounterNames counters;  // hardware counters, a follower right behind its leader
};

// A requested name and where its value comes from.
struct PlannedValue {
  std::string name;
  bool metric = false;
  // Passes that measure all it needs. Empty for a metric that no pass holds whole: such
  // a value is mixed, computed from means over different dispatches, and says so.
  std::vector<size_t> passes;
  bool mixed() const { return passes.empty(); }
};

struct PassPlan {
  std::string architecture;
  std::vector<CounterPass> passes;
  std::vector<PlannedValue> values;  // the request, each name once, in its order
};

// Names come from --pmc, sets, sections and files; unknown ones are COUNTER_NOT_FOUND
// with the nearest names, and a counter that no pass can hold is
// COUNTER_INFORMATION_MISSING. single_pass: INVALID_ARGUMENTS that says how many passes
// it takes and which block is short. An empty request is an empty plan.
absl::StatusOr<PassPlan> PlanPasses(const ArchitectureCounters& architecture,
                                    const std::vector<CounterNames>& groups,
                                    const PassOptions& options);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_COUNTERS_PASS_PLANNER_H_
