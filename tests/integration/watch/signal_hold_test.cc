// The second level of the hold: what only it could do to a process.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tests/integration/random_instants.h"
#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {
namespace {

class SignalHoldTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }
};

// Those that come after the first wait too: if one overtook, the runtime would be
// loaded without the collector.
TEST_F(SignalHoldTest, ThreadsThatFollowWait) {
  WatcherProcess watcher({"--auto", "--hold", "signal"});
  ASSERT_TRUE(watcher.ready());
  std::vector<pid_t> pids;
  for (int i = 0; i < 10; ++i) {
    Child target(OnSimgpu({"hsa_init_threads", "-w", kTimeToSeize}));
    pids.push_back(target.pid());
    Finished result = target.Wait();
    ASSERT_TRUE(result.exited_with(0)) << result.output << result.errors;
    EXPECT_EQ(result.errors, "");
  }
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  Recording recording = ReadRecording(watcher.recording());
  for (pid_t pid : pids) {
    const RecordedProcess process = recording.Process(pid);
    EXPECT_EQ(process.verdict.mode(), v1::WINDOW_MODE_SIGNALLED);
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
        << process.verdict.detail();
    EXPECT_EQ(process.dropped(), 0u);
  }
}

// A process that is seized, or stands in its stop, must not keep standing when the
// service is gone.
TEST_F(SignalHoldTest, TheServiceMayDieAtAnyInstant) {
  constexpr int kRounds = 25;
  constexpr int kBatch = 4;
  std::mt19937 random(11);
  RandomInstants instants(60'000);
  for (int round = 0; round < kRounds || (instants.OneSided() && round < 5 * kRounds);
       ++round) {
    WatcherProcess watcher({"--auto", "--hold", "signal"});
    ASSERT_TRUE(watcher.ready());
    std::vector<std::unique_ptr<Child>> children;
    children.reserve(kBatch);
    for (int i = 0; i < kBatch; ++i) {
      // By turns: one thread, and several that follow each other.
      children.push_back(
          std::make_unique<Child>(i % 2 == 0 ? OnSimgpu({"hsa_dispatch", "-n", "50"})
                                             : OnSimgpu({"hsa_init_threads"})));
    }
    std::this_thread::sleep_for(instants.Next(&random));
    watcher.Kill();
    for (auto& child : children) {
      Finished result = child->Wait();
      ASSERT_TRUE(result.exited_with(0)) << "status " << result.status << "\n"
                                         << result.output << result.errors;
      ASSERT_EQ(result.errors, "");
    }
    instants.Add(/*late=*/!watcher.Events("window").empty());
  }
  EXPECT_FALSE(instants.OneSided()) << "all kills came before the attaches, or behind";
}

}  // namespace
}  // namespace rocattach::testing_support
