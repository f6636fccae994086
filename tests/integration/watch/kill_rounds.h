// Rounds in each of which the service is killed or stopped while it attaches.
#ifndef ROCATTACH_TESTS_INTEGRATION_WATCH_KILL_ROUNDS_H_
#define ROCATTACH_TESTS_INTEGRATION_WATCH_KILL_ROUNDS_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {

struct KillRounds {
  std::vector<std::string> service;  // its arguments
  int rounds = 0;                    // up to five times as many if all kills came
                                     // before the attaches, or all after them
  int batch_us = 0;  // approximate time from the first window to the last end
  // Number of first rounds in which it is stopped (SIGSTOP), and killed after all ends.
  int stopped_rounds = 0;
  // The command lines of one batch, which start together.
  std::vector<std::vector<std::string>> targets;
  // Starts targets[i]; if empty, targets are started on the simulated GPU.
  std::function<std::unique_ptr<Child>(size_t i)> start;
  // A further check of a target's end; may be empty.
  std::function<void(const Finished&)> check;
};

// In each round, kills the service with SIGKILL or stops it at a random instant;
// expects each target to end as it does without a service.
void ExpectNobodyIsHarmed(const KillRounds& rounds);

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_WATCH_KILL_ROUNDS_H_
