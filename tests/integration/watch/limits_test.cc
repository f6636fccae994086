// Limits of the command line that no other test reaches: what exceeds them is refused
// or left out and reported with the option's name, and processes are not affected.
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/watch/harness.h"
#include "tests/unit/telemetry/http_client.h"

namespace rocattach::testing_support {
namespace {

class LimitsTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }

  // A process that uses the GPU until it is killed.
  static std::unique_ptr<Child> Busy() {
    return std::make_unique<Child>(OnSimgpu({"hsa_dispatch", "-n", "5", "--rounds",
                                             "1000000", "--sleep-msec", "20"}),
                                   Child::Options{.dies_with_us = true});
  }
};

TEST_F(LimitsTest, MoreProcessesThanMayBeAttached) {
  const Finished native = RunTarget({"hsa_dispatch", "-n", "5"});
  WatcherProcess watcher({"--auto", "--max-processes", "1"});
  ASSERT_TRUE(watcher.ready());
  const std::unique_ptr<Child> first = Busy();
  ASSERT_TRUE(Eventually([&] { return watcher.PollEvents("window") > 0; }));
  Child second(OnSimgpu({"hsa_dispatch", "-n", "5"}));
  const pid_t refused = second.pid();
  const Finished result = second.Wait();
  EXPECT_EQ(result.status, native.status);
  for (const char* number : {"dispatches", "increment", "accumulate"})
    EXPECT_EQ(Reported(result.output, number), Reported(native.output, number));
  EXPECT_EQ(result.errors, native.errors);
  // Processes that have ended do not count.
  first->Signal(SIGKILL);
  (void)first->Wait();
  ASSERT_TRUE(Eventually([&] { return watcher.PollEvents("end") > 0; }));
  Child third(OnSimgpu({"hsa_dispatch", "-n", "5"}));
  const pid_t attached = third.pid();
  EXPECT_TRUE(third.Wait().exited_with(0));
  EXPECT_TRUE(watcher.Stop().exited_with(0));

  const Recording recording = ReadRecording(watcher.recording());
  const v1::WindowEvent verdict = recording.Process(refused).verdict;
  EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_REFUSED);
  EXPECT_NE(verdict.detail().find("--max-processes"), std::string::npos)
      << verdict.detail();
  EXPECT_FALSE(verdict.target_modified());
  EXPECT_EQ(recording.Process(attached).dispatches.size(), 5u);
}

// Lines are left out, but the recording has all processes.
TEST_F(LimitsTest, MoreLinesThanMayBePrinted) {
  constexpr int kProcesses = 20;
  WatcherProcess watcher({"--auto", "--lines-per-second", "1"});
  ASSERT_TRUE(watcher.ready());
  std::vector<std::unique_ptr<Child>> targets;
  for (int i = 0; i < kProcesses; ++i)
    targets.push_back(std::make_unique<Child>(OnSimgpu({"hsa_dispatch", "-n", "5"})));
  for (const auto& target : targets) EXPECT_TRUE(target->Wait().exited_with(0));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const size_t printed = watcher.Events("window").size() + watcher.Events("end").size();
  uint64_t left_out = 0;
  for (const auto& event : watcher.Events("lines_left_out")) {
    EXPECT_EQ(event["uid"], getuid());
    left_out += event["lines"].get<uint64_t>();
  }
  EXPECT_GT(left_out, 0u);
  EXPECT_EQ(printed + left_out, 2u * kProcesses);
  EXPECT_EQ(ReadRecording(watcher.recording()).processes.size(), size_t{kProcesses});
}

// The value of the only series that begins like this, on the page of metrics; -1 if
// there is none.
double Value(const std::string& page, const std::string& beginning) {
  const size_t line = page.find("\n" + beginning);
  if (line == std::string::npos) return -1;
  return std::stod(page.substr(page.find(' ', line + 1) + 1));
}

int Count(const std::string& page, const std::string& beginning) {
  int count = 0;
  for (size_t at = 0; (at = page.find("\n" + beginning, at)) != std::string::npos; ++at)
    ++count;
  return count;
}

TEST_F(LimitsTest, FewerKernelsWithMetricsThanThereAre) {
  for (const int kernels : {0, 1}) {
    WatcherProcess watcher({"--auto", "--metrics-listen", "0", "--metrics-kernels",
                            std::to_string(kernels)});
    ASSERT_TRUE(watcher.ready());
    const ListenAddress service =
        *ParseListenAddress(watcher.Events("ready")[0].value("metrics", ""));
    const std::unique_ptr<Child> target = Busy();
    std::string page;
    ASSERT_TRUE(Eventually([&] {
      page = Get(service, "/metrics");
      return Value(page, "rocattach_target_dispatches_total") > 20;
    }));
    EXPECT_EQ(Count(page, "rocattach_kernel_info{"), kernels) << page;
    // All other kernels together are "other".
    EXPECT_EQ(Count(page, "rocattach_kernel_dispatches_total{"), kernels == 0 ? 0 : 2)
        << page;
    target->Signal(SIGKILL);
    (void)target->Wait();
    EXPECT_TRUE(watcher.Stop().exited_with(0));
  }
}

// Series beyond the limit are counted; totals of the machine have no limit.
TEST_F(LimitsTest, MoreSeriesThanAreServed) {
  WatcherProcess watcher(
      {"--auto", "--metrics-listen", "0", "--metrics-series", "100"});
  ASSERT_TRUE(watcher.ready());
  const ListenAddress service =
      *ParseListenAddress(watcher.Events("ready")[0].value("metrics", ""));
  std::vector<std::unique_ptr<Child>> targets;
  for (int i = 0; i < 12; ++i) targets.push_back(Busy());
  std::string page;
  EXPECT_TRUE(Eventually([&] {
    page = Get(service, "/metrics");
    return Value(page, "rocattach_series_refused_total") > 0;
  })) << page;
  EXPECT_EQ(Value(page, "rocattach_series_limit"), 100);
  EXPECT_LE(Value(page, "rocattach_series "), 100);
  EXPECT_GT(Value(page, "rocattach_gpu_dispatches_total{"), 0);
  for (const auto& target : targets) {
    target->Signal(SIGKILL);
    (void)target->Wait();
  }
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

}  // namespace
}  // namespace rocattach::testing_support
