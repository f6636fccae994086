#include "userspace/export/workload/pass_completion.h"

namespace rocattach {

std::vector<MeasuredDispatch> PassCompletion::Add(const std::string& key, size_t pass,
                                                  size_t passes,
                                                  MeasuredDispatch dispatch) {
  std::vector<MeasuredDispatch> done;
  const bool unknown = turns_.size() >= kMaxKernels && !turns_.contains(key);
  if (passes < 2 || passes > kMaxPasses || pass >= passes || unknown) {
    done.push_back(std::move(dispatch));
    return done;
  }
  Turn& turn = turns_[key];
  if (!turn.first.has_value()) {
    turn.measured.assign(passes, false);
    turn.measured[pass] = true;
    turn.missing = passes - 1;
    turn.names.clear();
    for (const auto& [name, value] : dispatch.values) turn.names.insert(name);
    turn.first = std::move(dispatch);
    return done;
  }
  if (pass < turn.measured.size() && !turn.measured[pass]) {
    turn.measured[pass] = true;
    --turn.missing;
    for (const auto& [name, value] : dispatch.values) {
      if (turn.first->values.size() >= kMaxValues) break;
      if (turn.names.insert(name).second) turn.first->values.emplace_back(name, value);
    }
  }
  done.push_back(std::move(dispatch));
  if (turn.missing == 0) {
    done.push_back(*std::move(turn.first));
    turn.first.reset();
  }
  return done;
}

std::vector<MeasuredDispatch> PassCompletion::Finish() {
  std::vector<MeasuredDispatch> done;
  for (auto& [key, turn] : turns_) {
    if (turn.first.has_value()) done.push_back(*std::move(turn.first));
  }
  turns_.clear();
  return done;
}

}  // namespace rocattach
