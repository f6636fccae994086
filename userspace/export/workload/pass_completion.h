// Completes the counters of dispatches that each measured one of several passes.
// Analyses that compute metrics for each dispatch need the counters of all passes in
// one dispatch: so the first dispatch of each turn of the passes also gets the values
// of the others, which are dispatches of the same kernel next to it.
#ifndef ROCATTACH_USERSPACE_EXPORT_WORKLOAD_PASS_COMPLETION_H_
#define ROCATTACH_USERSPACE_EXPORT_WORKLOAD_PASS_COMPLETION_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace rocattach {

struct MeasuredDispatch {
  std::string text;  // the caller's
  // Counters by name.
  std::vector<std::pair<std::string, double>> values;
};

class PassCompletion {
 public:
  // Maximum numbers of kernels whose dispatches are completed, of passes, and of values
  // of a dispatch; what exceeds these is returned unchanged.
  static constexpr size_t kMaxKernels = 1024;
  static constexpr size_t kMaxPasses = 256;
  static constexpr size_t kMaxValues = 16384;

  // Adds a dispatch of the kernel `key` that measured pass `pass` (from 0) of `passes`.
  // Returns the dispatches that are final: the first one of a turn once all passes have
  // been measured, the others at once.
  std::vector<MeasuredDispatch> Add(const std::string& key, size_t pass, size_t passes,
                                    MeasuredDispatch dispatch);
  // Returns the first dispatches of turns that are not complete.
  std::vector<MeasuredDispatch> Finish();

 private:
  struct Turn {
    std::optional<MeasuredDispatch> first;
    absl::flat_hash_set<std::string> names;  // of its values
    std::vector<bool> measured;              // by pass
    size_t missing = 0;                      // number of passes not measured yet
  };

  absl::flat_hash_map<std::string, Turn> turns_;  // by kernel
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_WORKLOAD_PASS_COMPLETION_H_
