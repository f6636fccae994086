// Compares a recording with what the simulator says that it ran and counted.
#ifndef ROCATTACH_TESTS_INTEGRATION_WATCH_SESSION_TRUTH_H_
#define ROCATTACH_TESTS_INTEGRATION_WATCH_SESSION_TRUTH_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/integration/watch/harness.h"
#include "tests/simrocm/counter_truth.h"

namespace rocattach::testing_support {

// A line of the simulator's own log (tests/simrocm/sdk/dispatch_log.h).
struct SimulatedDispatch {
  simrocm::DispatchShape shape = {};  // with the dispatch's number
  uint32_t node = 0;
  uint64_t start_ns = 0, end_ns = 0;
  bool counted = false;
};
// One line of it, if that is what it is.
std::optional<SimulatedDispatch> ParseDispatch(const std::string& line);
std::vector<SimulatedDispatch> ReadDispatchLog(const std::string& path);

// What the comparison found.
struct Compared {
  size_t dispatches = 0;  // of the recording, each found in the log
  size_t values = 0;
  std::set<uint64_t> counted;            // correlation ids with values
  std::map<uint32_t, size_t> of_kernel;  // counted dispatches, by kernel
  std::set<std::string> counters;        // names with values
};

// Every dispatch of the recording is one of the log: same GPU, same times, same sizes.
// Every value is what the simulator counted for just that dispatch, and each counted
// dispatch has all counters of its pass, once. What the simulator counted is what the
// recording has values of, if `all`.
Compared ExpectTruth(const RecordedProcess& process,
                     const std::vector<SimulatedDispatch>& log, bool all);

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_WATCH_SESSION_TRUTH_H_
