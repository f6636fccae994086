// Sessions on processes that were armed with the HSA backend at their first hsa_init:
// rocprofiler-sdk is added late, for counters of whole GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/sample_totals.h"
#include "tests/integration/watch/sessions_fixture.h"
#include "tests/simrocm/counter_truth.h"

namespace rocattach::testing_support {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class LateSessions : public SessionsTest {
 protected:
  Finished Client(std::vector<std::string> arguments) {
    std::vector<std::string> words = {ClientPath(), "session"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    words.insert(words.end(), {"--socket", Socket(), "--json"});
    return Child(words).Wait();
  }

  // Starts a session of samples on one process, once it is ready; returns the number.
  std::string Start(pid_t pid, const std::string& counter) {
    Finished answer;
    for (int attempt = 0; attempt < 200; ++attempt) {
      answer = Client({"start", "--pid", std::to_string(pid), "--pmc", counter,
                       "--device-samples", "5"});
      if (answer.exited_with(0)) break;
      usleep(10'000);
    }
    EXPECT_TRUE(answer.exited_with(0)) << answer.errors;
    if (!answer.exited_with(0)) return "0";
    return nlohmann::json::parse(answer.output)["session"].dump();
  }
};

double Waves(const rocattach_dispatch& d) {
  return static_cast<double>(
      simrocm::Waves({{d.grid_x, d.grid_y, d.grid_z},
                      {d.workgroup_x, d.workgroup_y, d.workgroup_z},
                      0}));
}

TEST_F(LateSessions, SamplesOfAProcessThatWasArmedWithoutTheSdk) {
  WatcherProcess watcher(Watch({"--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  constexpr int kBurst = 20;
  Child target(OnSimrocm({}, {"hsa_dispatch", "-n", std::to_string(kBurst), "--rounds",
                              "1000", "--sleep-msec", "5"}));
  const pid_t pid = target.pid();
  for (const char* counter : {"SQ_WAVES", "GRBM_COUNT", "SQ_WAVES"}) {
    const std::string session = Start(pid, counter);
    usleep(400'000);  // some 80 samples
    EXPECT_TRUE(Client({"stop", session}).exited_with(0));
  }
  const Finished refused =
      Client({"start", "--pid", std::to_string(pid), "--pmc", "SQ_WAVES"});
  EXPECT_TRUE(refused.exited_with(1));
  EXPECT_THAT(refused.errors, HasSubstr("counters of whole GPUs (--device-samples)"));
  const Finished result = target.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
  EXPECT_EQ(result.errors, "");
  EXPECT_TRUE(watcher.Stop().exited_with(0));

  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  EXPECT_EQ(process.verdict.collector().backend(), v1::BACKEND_HSA_TOOLS);
  EXPECT_EQ(process.dispatches.size(), 1000u * kBurst) << "recorded as before";
  EXPECT_EQ(process.dropped(), 0u);
  EXPECT_EQ(process.account.samples_dropped(), 0u);
  EXPECT_EQ(process.agents.size(), 2u) << "the SDK's are those that are known";
  ASSERT_EQ(process.plans.size(), 2u);
  const auto samples = SamplesByCounter(process);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_GE(samples.at("GRBM_COUNT").count, 10u);
  EXPECT_GT(samples.at("GRBM_COUNT").sum, 0);
}

TEST_F(LateSessions, ValuesAreThoseOfTheDispatchesMeanwhile) {
  WatcherProcess watcher(Watch({"--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  constexpr int kBurst = 20;
  Child target(OnSimrocm({}, {"hsa_dispatch", "-n", std::to_string(kBurst), "--rounds",
                              "600", "--sleep-msec", "5"}));
  const pid_t pid = target.pid();
  const std::string session = Start(pid, "SQ_WAVES");
  usleep(400'000);  // some 80 samples
  EXPECT_TRUE(Client({"stop", session}).exited_with(0));
  EXPECT_TRUE(target.Wait().exited_with(0));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  const SampleTotals samples = SamplesByCounter(process)["SQ_WAVES"];
  ASSERT_GE(samples.count, 10u);
  double waves = 0, most = 0;
  for (const rocattach_dispatch& dispatch : process.dispatches) {
    const bool inside =
        dispatch.end_ns > samples.begin_ns && dispatch.end_ns <= samples.end_ns;
    waves += inside ? Waves(dispatch) : 0;
    most = std::max(most, Waves(dispatch));
  }
  EXPECT_GT(waves, 0);
  // A sample may fall into a burst of dispatches, whose ends are close together.
  EXPECT_NEAR(samples.sum, waves, 2 * kBurst * most);
}

// A runtime with the SDK omits other tools when it starts again, but not the collector.
TEST_F(LateSessions, TheRuntimeMayShutDownAndStartAgain) {
  WatcherProcess watcher(Watch({"--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimrocm({}, {"hsa_reinit", "-r", "3", "-n", "50", "-w", "2000"}));
  const pid_t pid = target.pid();
  (void)Start(pid, "SQ_WAVES");
  const Finished result = target.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  EXPECT_EQ(process.dispatches.size(), 150u);
  EXPECT_EQ(process.dropped(), 0u);
  ASSERT_FALSE(process.samples.empty());
  const uint64_t last_window_ns = process.windows.back().hit_ns();
  size_t behind = 0;
  for (const CounterRecord& sample : process.samples) {
    behind += sample.begin_ns > last_window_ns;
  }
  EXPECT_GT(behind, 0u) << "sampled on in the runtime's last life";
}

TEST_F(LateSessions, ChildrenInheritNoneOfItsVariables) {
  Finished alone = Child(OnSimrocm({}, {"child_environment"})).Wait();
  EXPECT_THAT(alone.output, HasSubstr("ROCPROFILER_REGISTER_FORCE_LOAD unset"));
  WatcherProcess watcher(Watch({"--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimrocm({}, {"child_environment", "-w", "2000"}));
  const pid_t pid = target.pid();
  (void)Start(pid, "SQ_WAVES");
  const Finished watched = target.Wait();
  EXPECT_EQ(alone.output, watched.output);
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  EXPECT_FALSE(ReadRecording(watcher.recording()).Process(pid).samples.empty());
}

TEST_F(LateSessions, TheProcessMayEndWhileTheSdkComes) {
  WatcherProcess watcher(Watch({"--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  constexpr int kRounds = 16;
  for (int round = 0; round < kRounds; ++round) {
    // The collector asks for the SDK half a second after hsa_init: end around then.
    const std::string msec = std::to_string(480 + 10 * round);
    Child target(OnSimrocm({}, {"hsa_reinit", "-r", "1", "-n", "50", "-w", msec}));
    const std::string pid = std::to_string(target.pid());
    Finished answer;
    for (int attempt = 0; attempt < 100; ++attempt) {
      answer = Client({"start", "--pid", pid, "--pmc", "SQ_WAVES", "--device-samples",
                       "1", "--no-wait"});
      if (answer.errors.find("is not attached") == std::string::npos) break;
    }
    const Finished result = target.Wait();
    EXPECT_TRUE(result.exited_with(0)) << msec << ": status " << result.status;
    EXPECT_EQ(result.output, "dispatches=50 copies=0 bytes=0 rounds=1 result=ok\n");
    EXPECT_EQ(result.errors, "");
  }
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Recording recording = ReadRecording(watcher.recording());
  EXPECT_EQ(recording.summary->windows_attached(), uint64_t{kRounds});
  EXPECT_EQ(recording.summary->dispatches(), 50u * kRounds);
  EXPECT_EQ(recording.summary->dropped(), 0u);
}

// Copies simrocm-run to a folder of its own, in which the SDK's file has the name of a
// version that cannot be added to a running process.
std::string OldSimrocm(const std::string& directory) {
  namespace fs = std::filesystem;
  const fs::path from = fs::path(SimrocmRunPath()).parent_path();
  const fs::path to = directory + "/old/simrocm";
  fs::create_directories(to);
  fs::copy(from / "lib", to / "lib",
           fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  fs::copy(SimrocmRunPath(), to);
  fs::create_symlink(from.parent_path() / "simgpu", directory + "/old/simgpu");
  const fs::path sdk = to / "lib/librocprofiler-sdk.so.1";
  fs::rename(sdk, to / "lib/librocprofiler-sdk.so.1.0.0");
  fs::create_symlink("librocprofiler-sdk.so.1.0.0", sdk);
  return to / "simrocm-run";
}

// The status must not promise a session that a start would refuse.
TEST_F(LateSessions, StatusSaysThatAnOldSdkCannotBeAdded) {
  const std::string run = OldSimrocm(directory_.path());
  WatcherProcess watcher(Watch({"--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  Child target({run, TargetPath("hsa_dispatch"), "-n", "20", "--rounds", "1000000",
                "--sleep-msec", "5"},
               {.dies_with_us = true});
  Finished status;
  EXPECT_TRUE(Eventually([&] {
    status = Child({ClientPath(), "session", "status", "--socket", Socket()}).Wait();
    return status.output.find("process ") != std::string::npos;
  })) << status.errors;
  EXPECT_THAT(status.output,
              AllOf(HasSubstr("cannot be measured: "), HasSubstr("1.0.0"),
                    Not(HasSubstr("whole GPUs can be measured"))));
  const Finished refused = Client({"start", "--pid", std::to_string(target.pid()),
                                   "--pmc", "SQ_WAVES", "--device-samples", "5"});
  EXPECT_TRUE(refused.exited_with(1)) << refused.output;
  EXPECT_THAT(refused.errors, HasSubstr("1.0.0"));
  target.Signal(SIGKILL);
  (void)target.Wait();
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

TEST_F(LateSessions, RefusedWhereTheSdkCannotBeAdded) {
  const struct {
    std::vector<std::string> watcher, simrocm;
    const char* why;
  } cases[] = {
      {{}, {"--without-sdk"}, "would not find librocprofiler-sdk.so"},
      {{"--backend", "hsa"}, {}, "switched off"},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.why);
    std::vector<std::string> words = {"--socket", Socket()};
    words.insert(words.end(), test.watcher.begin(), test.watcher.end());
    WatcherProcess watcher(Watch(words));
    ASSERT_TRUE(watcher.ready());
    Child target(OnSimrocm(test.simrocm, {"hsa_dispatch", "-n", "20", "--rounds", "400",
                                          "--sleep-msec", "5"}));
    const pid_t pid = target.pid();
    Finished answer;
    for (int attempt = 0; attempt < 200; ++attempt) {
      answer = Client({"start", "--pid", std::to_string(pid), "--pmc", "SQ_WAVES",
                       "--device-samples", "5"});
      if (answer.errors.find("is not attached") == std::string::npos) break;
      usleep(5'000);
    }
    EXPECT_TRUE(answer.exited_with(1)) << answer.output;
    EXPECT_THAT(answer.errors, HasSubstr(test.why));
    EXPECT_TRUE(target.Wait().exited_with(0));
    EXPECT_TRUE(watcher.Stop().exited_with(0));
    const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
    EXPECT_EQ(process.dispatches.size(), 8000u);
    EXPECT_TRUE(process.samples.empty());
  }
}

}  // namespace
}  // namespace rocattach::testing_support
