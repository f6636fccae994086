// A service that is killed or stopped while it attaches, again and again.
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
  int rounds = 0;    // more, up to five times as many, if all kills came
                     // before the attaches or behind
  int batch_us = 0;  // from the first window to the last end, about
  // In so many of the first ones it is stopped (SIGSTOP), and killed when all have ended.
  int stopped_rounds = 0;
  // The command lines of one batch, which start together.
  std::vector<std::vector<std::string>> targets;
  // Starts targets[i]; if it is empty, that is done on the simulated GPU.
  std::function<std::unique_ptr<Child>(size_t i)> start;
  // What else is expected of a target's end; may be empty.
  std::function<void(const Finished&)> check;
};

// Kills the service with SIGKILL, or stops it, at a random instant of each round, and expects each
// target to end as if it had never been watched.
void ExpectNobodyIsHarmed(const KillRounds& rounds);

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_WATCH_KILL_ROUNDS_H_
