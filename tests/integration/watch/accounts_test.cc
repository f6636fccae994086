// Every operation of a program is counted as seen in its account, and is delivered or
// counted as lost: with full rings, and when the program or the service is killed. The
// report of a recording that was cut off says so before anything else.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/integration/random_instants.h"
#include "tests/integration/watch/harness.h"
#include "tests/temporary_directory.h"
#include "userspace/base/clock.h"

namespace rocattach::testing_support {
namespace {

class AccountsTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }

  // Waits until the service has reported a window.
  static bool IsAttached(WatcherProcess* watcher) {
    return Eventually([watcher] { return watcher->PollEvents("window") > 0; });
  }
};

struct Overflow {
  const char* name;
  const char* slots;
  bool stopped;  // the service reads nothing while the program runs
  const char* exit;
};

class OverflowTest : public AccountsTest,
                     public testing::WithParamInterface<Overflow> {};

INSTANTIATE_TEST_SUITE_P(
    Rings, OverflowTest,
    testing::Values(Overflow{"Small", "64", false, "shutdown"},
                    Overflow{"SmallKilled", "64", false, "sigkill"},
                    Overflow{"Middle", "1024", true, "return"},
                    Overflow{"Default", "16384", true, "shutdown"},
                    Overflow{"DefaultKilled", "16384", true, "sigkill"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(OverflowTest, EveryOperationIsDeliveredOrCountedAsLost) {
  if (IsSkipped() || HasFatalFailure()) return;
  const Overflow& param = GetParam();
  const std::vector<std::string> command =
      OnSimgpu({"hsa_dispatch", "-n", "20000", "-t", "2", "-q", "2", "--rounds", "3",
                "--sleep-msec", param.stopped ? "700" : "0", "--kernel-signal", "none",
                "--copies", "40", "--exit", param.exit});
  const Child::Options fast = {.environment = {"SIMGPU_KERNEL_NS=0"}};
  const Finished native = Child(command, fast).Wait();
  WatcherProcess watcher({"--auto", "--ring-slots", param.slots});
  ASSERT_TRUE(watcher.ready());
  Child target(command, fast);
  const pid_t pid = target.pid();
  if (param.stopped) {
    // It sleeps before its first round.
    EXPECT_TRUE(IsAttached(&watcher));
    kill(watcher.pid(), SIGSTOP);
  }
  const Finished result = target.Wait();
  kill(watcher.pid(), SIGCONT);
  EXPECT_EQ(result.status, native.status);
  EXPECT_EQ(result.errors, native.errors);
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  const v1::LossAccount& account = process.account;
  ASSERT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
      << process.verdict.detail();
  EXPECT_EQ(account.not_believable(), "");
  EXPECT_GT(account.dropped_ring_full(), 0u) << "nothing was lost: no test";
  const int64_t dispatches = Reported(result.output, "dispatches");
  EXPECT_EQ(dispatches, 60'000);
  EXPECT_EQ(static_cast<int64_t>(account.dispatches_seen() + account.packets_unseen()),
            dispatches);
  EXPECT_EQ(static_cast<int64_t>(account.copies_seen()),
            Reported(result.output, "copies"));
  EXPECT_EQ(account.dispatches_seen() + account.copies_seen(),
            process.dispatches.size() + process.copies.size() + process.dropped());
  EXPECT_EQ(account.dropped_invalid() + account.dropped_collector(), 0u);
}

// The GPU takes packets before their doorbell has been rung.
TEST_F(AccountsTest, CountsPacketsThatTheGpuReadsBeforeTheirDoorbell) {
  // Without signals, both queues end with a barrier packet, which counts as well.
  const std::pair<const char*, int64_t> signals[] = {{"each", 0}, {"none", 2}};
  for (const auto& [of_kernels, barriers] : signals) {
    const std::vector<std::string> command =
        OnSimgpu({"hsa_dispatch", "-n", "20000", "-t", "4", "-q", "2",
                  "--kernel-signal", of_kernels});
    WatcherProcess watcher({"--auto"});
    ASSERT_TRUE(watcher.ready());
    Child target(command,
                 {.environment = {"SIMGPU_UNRUNG_NS=1000", "SIMGPU_KERNEL_NS=0"}});
    const Finished result = target.Wait();
    EXPECT_TRUE(result.exited_with(0)) << result.errors;
    EXPECT_TRUE(watcher.Stop().exited_with(0));
    const v1::LossAccount account =
        ReadRecording(watcher.recording()).Process(target.pid()).account;
    const auto counted =
        static_cast<int64_t>(account.dispatches_seen() + account.packets_unseen());
    const int64_t made = Reported(result.output, "dispatches");
    EXPECT_GE(counted, made) << of_kernels;
    EXPECT_LE(counted, made + barriers) << of_kernels;
  }
}

// The service is stopped for longer than the collector keeps trying with full rings.
TEST_F(AccountsTest, AServiceThatWasStoppedRecordsAgain) {
  const TemporaryDirectory directory;
  const std::string until = directory.path() + "/until";
  const std::vector<std::string> command =
      OnSimgpu({"hsa_busy", "--plain", "-t", "2", "--rate", "2000", "--until", until});
  WatcherProcess watcher({"--auto", "--ring-slots", "64"});
  ASSERT_TRUE(watcher.ready());
  Child target(command, {.dies_with_us = true});
  EXPECT_TRUE(IsAttached(&watcher));
  kill(watcher.pid(), SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(7));
  const uint64_t back_ns = BootNs();
  kill(watcher.pid(), SIGCONT);
  const auto recorded_since = [&] {
    uint64_t count = 0;
    for (const rocattach_dispatch& dispatch :
         ReadRecordingSoFar(watcher.recording()).Process(target.pid()).dispatches) {
      count += dispatch.enqueue_ns > back_ns ? 1 : 0;
    }
    return count;
  };
  EXPECT_TRUE(Eventually([&] { return recorded_since() > 1000; }));
  std::ofstream(until).put('\n');
  const Finished result = target.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.errors;
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process =
      ReadRecording(watcher.recording()).Process(target.pid());
  EXPECT_GT(process.account.packets_unseen(), 0u) << process.Explain();
  EXPECT_EQ(static_cast<int64_t>(process.account.dispatches_seen() +
                                 process.account.packets_unseen()),
            Reported(result.output, "dispatches"));
}

// The program is killed at any instant, while rings overflow: nothing counts twice.
TEST_F(AccountsTest, AProgramKilledAtAnyInstantIsAccountedFor) {
  std::mt19937 random(11);
  WatcherProcess watcher({"--auto", "--ring-slots", "64"});
  ASSERT_TRUE(watcher.ready());
  constexpr int kRounds = 30;
  std::vector<pid_t> pids;
  for (int round = 0; round < kRounds; ++round) {
    Child target(OnSimgpu({"hsa_dispatch", "-n", "100000000", "-t", "3", "-q", "3",
                           "--kernel-signal", round % 2 == 0 ? "none" : "each"}),
                 {.environment = {"SIMGPU_KERNEL_NS=0"}});
    pids.push_back(target.pid());
    EXPECT_TRUE(Eventually(
        [&] { return watcher.PollEvents("window") > static_cast<size_t>(round); }));
    std::this_thread::sleep_for(std::chrono::microseconds(
        std::uniform_int_distribution<int>(0, 60'000)(random)));
    target.Signal(SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(target.Wait().status));
  }
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Recording recording = ReadRecording(watcher.recording());  // sums add up
  uint64_t dispatches = 0;
  for (pid_t pid : pids) {
    const RecordedProcess process = recording.Process(pid);
    EXPECT_EQ(process.account.not_believable(), "");
    EXPECT_EQ(process.account.dropped_invalid(), 0u);
    // At most the operations that its threads were about to submit when it died.
    EXPECT_LE(process.account.dropped_inflight(), 8u);
    dispatches += process.dispatches.size();
  }
  EXPECT_GT(dispatches, 1000u);
}

// The service is killed: what it had recorded is there, and how much is missing is
// unknown. The report says that first, for the file and for what is recovered from it.
TEST_F(AccountsTest, ARecordingThatWasCutOffSaysSoFirst) {
  WatcherProcess watcher({"--auto", "--ring-slots", "64"});
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimgpu({"hsa_dispatch", "-n", "20000", "-t", "2", "--kernel-signal",
                         "none", "--rounds", "100000"}),
               {.environment = {"SIMGPU_KERNEL_NS=0"}});
  // The recording contains losses as well as records.
  EXPECT_TRUE(Eventually([&] {
    const Finished so_far = Child({ClientPath(), "report", watcher.recording()}).Wait();
    return so_far.output.find("dropped, the ring was full") != std::string::npos;
  }));
  watcher.Kill();
  target.Signal(SIGKILL);
  target.Wait();
  const std::string recovered = watcher.directory() + "/recovered.rwa";
  EXPECT_TRUE(Child({ClientPath(), "recover", watcher.recording(), "-o", recovered})
                  .Wait()
                  .exited_with(1));
  for (const std::string& file : {watcher.recording(), recovered}) {
    const Finished text = Child({ClientPath(), "report", file}).Wait();
    EXPECT_TRUE(text.exited_with(1)) << file;
    EXPECT_EQ(text.output.rfind("INCOMPLETE: ", 0), 0u) << text.output;
    EXPECT_EQ(text.output.find("nothing lost"), std::string::npos) << text.output;
    EXPECT_NE(text.output.find("at least "), std::string::npos) << text.output;
    EXPECT_NE(text.output.find("no final account"), std::string::npos) << text.output;
    const Finished json = Child({ClientPath(), "report", "--json", file}).Wait();
    EXPECT_TRUE(json.exited_with(1));
    EXPECT_EQ(json.output.rfind("{\"incomplete\":true", 0), 0u)
        << json.output.substr(0, 100);
    const auto report = nlohmann::json::parse(json.output);
    const auto& recording = report["recordings"][0];
    EXPECT_TRUE(recording["incomplete"]);
    EXPECT_GE(recording["incomplete_because"].size(), 2u);
    EXPECT_FALSE(recording["processes"][0]["final_account"]);
  }
}

// The report of a complete recording says that nothing was lost, and names no problem.
TEST_F(AccountsTest, AWholeRecordingSaysThatNothingWasLost) {
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  EXPECT_TRUE(RunTarget({"hsa_dispatch", "-n", "100", "--copies", "4"}).exited_with(0));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Finished text = Child({ClientPath(), "report", watcher.recording()}).Wait();
  EXPECT_TRUE(text.exited_with(0)) << text.output;
  EXPECT_NE(text.output.find("nothing lost"), std::string::npos) << text.output;
  EXPECT_EQ(text.output.find("INCOMPLETE"), std::string::npos) << text.output;
  EXPECT_EQ(text.output.find("problem"), std::string::npos) << text.output;
}

}  // namespace
}  // namespace rocattach::testing_support
