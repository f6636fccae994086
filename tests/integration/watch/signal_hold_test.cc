// The second level of the hold: what only it could do to a process.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
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
    Child target(OnSimgpu({"hsa_init_threads"}));
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
  int with_windows = 0;
  int64_t longest_us = 0;
  srandom(static_cast<unsigned>(getpid()));
  for (int round = 0; round < kRounds; ++round) {
    WatcherProcess watcher({"--auto", "--hold", "signal"});
    ASSERT_TRUE(watcher.ready());
    std::vector<std::unique_ptr<Child>> children;
    for (int i = 0; i < kBatch; ++i) {
      // By turns: one thread, and several that follow each other.
      children.push_back(
          std::make_unique<Child>(i % 2 == 0 ? OnSimgpu({"hsa_dispatch", "-n", "50"})
                                             : OnSimgpu({"hsa_init_threads"})));
    }
    if (round == 0) {
      // How long that takes here: the other rounds are spread over twice the time.
      const absl::Time begin = absl::Now();
      while (watcher.Events("window").empty() &&
             absl::Now() < begin + absl::Seconds(20)) {
        usleep(1000);
      }
      longest_us = 2 * absl::ToInt64Microseconds(absl::Now() - begin);
    } else {
      usleep(static_cast<useconds_t>(random() % longest_us));
    }
    watcher.Kill();
    for (auto& child : children) {
      Finished result = child->Wait();
      ASSERT_TRUE(result.exited_with(0)) << "status " << result.status << "\n"
                                         << result.output << result.errors;
      ASSERT_EQ(result.errors, "");
    }
    with_windows += watcher.Events("window").empty() ? 0 : 1;
  }
  // The instants were spread over the attaches, not all before or behind them.
  EXPECT_GT(with_windows, 1);
  EXPECT_LT(with_windows, kRounds);
}

}  // namespace
}  // namespace rocattach::testing_support
