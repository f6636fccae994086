// Names of counters as users give them: --pmc groups, --set and --block.
#ifndef ROCATTACH_USERSPACE_COUNTERS_REQUEST_H_
#define ROCATTACH_USERSPACE_COUNTERS_REQUEST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/counters/catalog.h"
#include "userspace/counters/pass_planner.h"

namespace rocattach {

// As given on a command line.
struct CounterOptions {
  std::vector<std::vector<std::string>> pmc;  // one entry per --pmc
  std::vector<std::string> sets;              // --set
  // --block: names of blocks, numbers of sections, tables and metrics (5, 5.1, 5.1.1);
  // a metric that is not known stands for the section that it is in
  std::vector<std::string> blocks;
};

// Splits words that are separated by spaces or commas.
CounterNames SplitCounters(absl::string_view text);

// The groups that the options request on one architecture. Unknown names are
// COUNTER_NOT_FOUND with the nearest names.
absl::StatusOr<std::vector<CounterNames>> ResolveCounters(
    const ArchitectureCounters& architecture, const CounterOptions& options);

// Checks names before any process is attached to, when the GPUs are not known yet: each
// name must exist on some architecture.
absl::Status CheckCounters(const CounterCatalog& catalog,
                           const CounterOptions& options);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_COUNTERS_REQUEST_H_
