// Compares a recording with what the simulator reports that it ran and counted.
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
// Parses one line of the log; nothing if it is not such a line.
std::optional<SimulatedDispatch> ParseDispatch(const std::string& line);
std::vector<SimulatedDispatch> ReadDispatchLog(const std::string& path);

// Result of the comparison.
struct Compared {
  size_t dispatches = 0;  // in the recording, each found in the log
  size_t values = 0;
  std::set<uint64_t> counted;            // correlation ids with values
  std::map<uint32_t, size_t> of_kernel;  // counted dispatches, by kernel
  std::set<std::string> counters;        // names with values
};

// Expects every dispatch of the recording in the log, with the same GPU, times and
// sizes. Each value must be what the simulator counted for exactly that dispatch, and
// each counted dispatch must have each counter of its pass once. If `all`, the
// recording must have values of every dispatch that the simulator counted.
Compared ExpectTruth(const RecordedProcess& process,
                     const std::vector<SimulatedDispatch>& log, bool all);

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_WATCH_SESSION_TRUTH_H_
