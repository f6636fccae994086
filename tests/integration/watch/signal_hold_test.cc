// Hold mode `signal`: effects that only this mode could have on a process.
#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/match.h"
#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/kill_rounds.h"

namespace rocattach::testing_support {
namespace {

class SignalHoldTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }
};

// Followers wait as well: if one overtook the first thread, the runtime would be loaded
// without the collector.
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

// When the process is released, one of its threads cannot reach the stop that a detach
// requires. It reaches the stop later, and must not remain in it.
TEST_F(SignalHoldTest, AThreadThatCannotStopIsLetGoWhenItCan) {
  WatcherProcess watcher({"--auto", "--hold", "signal"});
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimgpu({"hsa_beside_vfork", "1500"}));
  const pid_t pid = target.pid();
  // The program waits for that thread; the end of the service releases it.
  bool done = false;
  for (int i = 0; i < 3000 && !done; ++i) {
    usleep(10'000);
    done = absl::StrContains(target.PollOutput(), "result=ok");
  }
  EXPECT_TRUE(done) << "a thread was left standing";
  if (!done) watcher.Kill();
  const Finished result = target.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
      << process.verdict.detail();
  EXPECT_EQ(process.dispatches.size(), 10u);
}

// A process that is seized, or in its stop, must not stay stopped when the service is
// gone.
TEST_F(SignalHoldTest, TheServiceMayDieAtAnyInstant) {
  KillRounds kills;
  kills.service = {"--auto", "--hold", "signal"};
  kills.rounds = 25;
  kills.batch_us = 60'000;
  // Alternately: one thread, and a thread with several followers.
  kills.targets = {{"hsa_dispatch", "-n", "50"},
                   {"hsa_init_threads"},
                   {"hsa_dispatch", "-n", "50"},
                   {"hsa_init_threads"}};
  ExpectNobodyIsHarmed(kills);
}

}  // namespace
}  // namespace rocattach::testing_support
