// With a budget, the service records fewer dispatches, in the end none, and recovers.
// Every dispatch is counted throughout, and all outputs say what is left out.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/watch/hang_report.h"
#include "tests/integration/watch/harness.h"
#include "tests/unit/telemetry/http_client.h"

namespace rocattach::testing_support {
namespace {

using Json = nlohmann::json;

class LoadBudgetTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }

  // The sum of a metric's series; -1 if it has none.
  static double Sum(WatcherProcess* watcher, const std::string& metric) {
    const auto events = watcher->Events("ready");
    if (events.empty()) return -1;
    const auto address = ParseListenAddress(events[0].value("metrics", ""));
    if (!address.ok()) return -1;
    const std::string page = Get(*address, "/metrics");
    double sum = -1;
    for (size_t at = page.find("\n" + metric); at != std::string::npos;
         at = page.find("\n" + metric, at + 1)) {
      const char next = page[at + 1 + metric.size()];
      if (next != ' ' && next != '{') continue;
      const size_t end = page.find('\n', at + 1);
      const size_t begin = page.rfind(' ', end) + 1;
      double value = 0;
      if (!absl::SimpleAtod(page.substr(begin, end - begin), &value)) continue;
      sum = std::max(sum, 0.0) + value;
    }
    return sum;
  }
  // With longer pauses than Eventually(), as requests are load, too.
  static void WaitUntil(const std::function<bool()>& condition,
                        const std::string& what) {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(kHangMsec);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) {
        ADD_FAILURE() << "waited in vain for " << what;
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  static std::string LastLevel(WatcherProcess* watcher) {
    (void)watcher->PollEvents("sampling");
    const std::vector<Json> events = watcher->Events("sampling");
    return events.empty() ? "every" : events.back().value("level", "");
  }
};

TEST_F(LoadBudgetTest, DegradesToCountsAndCountsEveryDispatch) {
  WatcherProcess watcher({"--auto", "--metrics-listen", "0", "--disk-budget", "1"});
  ASSERT_TRUE(watcher.ready());
  // Nothing can be sampled without a process, so the start of the file does not count.
  EXPECT_EQ(Sum(&watcher, "rocattach_sampling_ratio"), 1);
  Child target(OnSimgpu({"hsa_dispatch", "-n", "500", "--rounds", "100", "--sleep-msec",
                         "60", "--copies", "2"}));
  WaitUntil([&] { return LastLevel(&watcher) == "counts_only"; },
            "the level without dispatches");
  EXPECT_EQ(Sum(&watcher, "rocattach_sampling_ratio"), 0);
  WaitUntil([&] { return Sum(&watcher, "rocattach_records_sampled_out_total") > 0; },
            "records that are left out");
  EXPECT_GT(Sum(&watcher, "rocattach_target_sampled_out_total"), 0);
  const Finished result = target.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.errors;
  // Nothing is written any more, so the service tries to sample again.
  WaitUntil([&] { return LastLevel(&watcher) == "sampled"; }, "a sampled level");
  EXPECT_TRUE(watcher.Stop().exited_with(0));

  const std::vector<Json> levels = watcher.Events("sampling");
  ASSERT_GE(levels.size(), 4u);
  EXPECT_EQ(levels[0].value("level", ""), "sampled");
  EXPECT_EQ(levels[0].value("divisor", 0), 16);
  EXPECT_EQ(levels[1].value("divisor", 0), 256);
  EXPECT_EQ(levels[2].value("level", ""), "counts_only");
  EXPECT_EQ(levels[3].value("divisor", 0), 1024);
  const Recording recording = ReadRecording(watcher.recording());
  const RecordedProcess process = recording.Process(target.pid());
  const v1::LossAccount& account = process.account;
  const auto dispatches = static_cast<uint64_t>(Reported(result.output, "dispatches"));
  EXPECT_EQ(account.dispatches_seen(), dispatches);
  EXPECT_EQ(account.dispatches_delivered() + account.sampled_out(), dispatches);
  EXPECT_GT(account.sampled_out(), 0u);
  EXPECT_EQ(account.dispatches_delivered(), process.dispatches.size());
  EXPECT_EQ(process.dropped(), 0u);
  // Copies are not sampled.
  EXPECT_EQ(process.copies.size(),
            static_cast<uint64_t>(Reported(result.output, "copies")));
  ASSERT_FALSE(process.sampling.empty());
  // The first dispatches are recorded, and none from after a change to counting only.
  const uint64_t from = process.sampling.front().time_ns();
  uint64_t before = 0, after = 0;
  for (const rocattach_dispatch& record : process.dispatches) {
    before += record.enqueue_ns < from ? 1u : 0u;
    for (const v1::SamplingEvent& event : process.sampling) {
      if (event.level() != v1::SamplingEvent::COUNTS_ONLY) continue;
      // Allows 1 ms for dispatches that were being captured at that moment.
      after += record.enqueue_ns > event.time_ns() + 1'000'000 ? 1u : 0u;
    }
  }
  EXPECT_GT(before, 0u);
  EXPECT_EQ(after, 0u);
  ASSERT_TRUE(recording.summary.has_value());
  EXPECT_EQ(recording.summary->sampled_out(), account.sampled_out());
  EXPECT_EQ(recording.summary->dropped(), 0u);

  // The report says that its figures cover only a part, and that nothing was lost.
  const Finished report = Child({ClientPath(), "report", watcher.recording()}).Wait();
  EXPECT_TRUE(report.exited_with(0)) << report.output;
  EXPECT_NE(report.output.find("counted and not recorded"), std::string::npos)
      << report.output;
  EXPECT_NE(report.output.find("sampled out"), std::string::npos) << report.output;
}

// Estimates from samples are close to the true values, and when there is less to do,
// everything is recorded again.
TEST_F(LoadBudgetTest, SampledTotalsAreNearTheTruthAndItRecovers) {
  WatcherProcess watcher({"--auto", "--metrics-listen", "0", "--disk-budget", "16K"});
  ASSERT_TRUE(watcher.ready());
  const Child::Options times = {.environment = {"SIMGPU_KERNEL_NS=20000"}};
  Child target(
      OnSimgpu({"hsa_dispatch", "-n", "2000", "--rounds", "60", "--sleep-msec", "50"}),
      times);
  WaitUntil([&] { return LastLevel(&watcher) == "sampled"; }, "a sampled level");
  const double ratio = Sum(&watcher, "rocattach_sampling_ratio");
  EXPECT_GT(ratio, 0);
  EXPECT_LT(ratio, 1);
  const Finished result = target.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.errors;
  const auto dispatches = static_cast<double>(Reported(result.output, "dispatches"));
  WaitUntil([&] { return Sum(&watcher, "rocattach_targets") == 0; },
            "the end of the last target");
  const double estimate = Sum(&watcher, "rocattach_gpu_dispatches_total");
  const double seconds = Sum(&watcher, "rocattach_gpu_time_seconds_total");
  WaitUntil([&] { return LastLevel(&watcher) == "every"; },
            "the level with every dispatch");
  EXPECT_EQ(Sum(&watcher, "rocattach_sampling_ratio"), 1);
  EXPECT_TRUE(watcher.Stop().exited_with(0));

  const RecordedProcess process =
      ReadRecording(watcher.recording()).Process(target.pid());
  EXPECT_EQ(static_cast<double>(process.account.dispatches_seen()), dispatches);
  ASSERT_GT(process.account.sampled_out(), 0u);
  // Five standard deviations of an estimate from that many samples, at the level with
  // the largest variance. Nothing is estimated while only counts are kept.
  double divisor = 1;
  for (const v1::SamplingEvent& event : process.sampling) {
    ASSERT_NE(event.level(), v1::SamplingEvent::COUNTS_ONLY);
    divisor = std::max<double>(divisor, event.divisor());
  }
  const double allowed = 5 * std::sqrt(dispatches * divisor);
  EXPECT_NEAR(estimate, dispatches, allowed);
  EXPECT_NEAR(seconds, estimate * 20e-6, 0.02 * estimate * 20e-6);
}

}  // namespace
}  // namespace rocattach::testing_support
