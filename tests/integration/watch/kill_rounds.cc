#include "tests/integration/watch/kill_rounds.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <random>
#include <thread>

#include "tests/integration/random_instants.h"

namespace rocattach::testing_support {

void ExpectNobodyIsHarmed(const KillRounds& rounds) {
  std::mt19937 random(7);
  RandomInstants instants(rounds.batch_us);
  for (int round = 0;
       round < rounds.rounds || (instants.OneSided() && round < 5 * rounds.rounds);
       ++round) {
    WatcherProcess watcher(rounds.service);
    ASSERT_TRUE(watcher.ready());
    std::vector<std::unique_ptr<Child>> children;
    children.reserve(rounds.targets.size());
    for (size_t i = 0; i < rounds.targets.size(); ++i) {
      children.push_back(rounds.start
                             ? rounds.start(i)
                             : std::make_unique<Child>(OnSimgpu(rounds.targets[i])));
    }
    std::this_thread::sleep_for(instants.Next(&random));
    const bool is_stopped = round < rounds.stopped_rounds;
    if (is_stopped) {
      kill(watcher.pid(), SIGSTOP);
    } else {
      watcher.Kill();
    }
    for (auto& child : children) {
      const Finished result = child->Wait();
      ASSERT_TRUE(result.exited_with(0)) << "status " << result.status << "\n"
                                         << result.output << result.errors;
      ASSERT_EQ(result.errors, "");
      if (rounds.check) rounds.check(result);
    }
    if (is_stopped) watcher.Kill();
    instants.Add(/*late=*/!watcher.Events("window").empty());
  }
  EXPECT_FALSE(instants.OneSided()) << "all kills came before the attaches, or behind";
}

}  // namespace rocattach::testing_support
