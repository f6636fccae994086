// The duration of a hold is the same wherever it is reported: in the log or JSON, the
// metrics, the report and the recording itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/metrics_fixture.h"
#include "tests/unit/telemetry/http_client.h"
#include "userspace/base/human.h"
#include "userspace/stream/hold.h"

namespace rocattach::testing_support {
namespace {

using testing::HasSubstr;

constexpr char kSum[] = "rocattach_hold_duration_seconds_sum ";
constexpr char kCount[] = "rocattach_hold_duration_seconds_count ";

class HoldsTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }

  // Runs a service with one window, and returns what it has printed.
  std::string RunWindow(std::vector<std::string> more) {
    const ListenAddress address = FreePort();
    std::vector<std::string> command = {WatcherPath(),
                                        "--auto",
                                        "--collector",
                                        CollectorPath(),
                                        "-d",
                                        directory_.path(),
                                        "-o",
                                        "run",
                                        "--socket",
                                        directory_.path() + "/control",
                                        "--metrics-listen",
                                        address.text()};
    command.insert(command.end(), more.begin(), more.end());
    Child service(command, {.dies_with_us = true});
    EXPECT_TRUE(Eventually(
        [&] { return Get(address, "/readyz").find(" 200 ") != std::string::npos; }));
    Child target(OnSimgpu({"hsa_dispatch", "-n", "5"}));
    pid_ = target.pid();
    EXPECT_TRUE(target.Wait().exited_with(0));
    EXPECT_TRUE(Eventually([&] {
      page_ = Get(address, "/metrics");
      return Metric(kCount) == 1;
    })) << page_;
    service.Signal(SIGINT);
    const Finished end = service.Wait();
    EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
    return absl::StrCat(end.output, end.errors);
  }
  double Metric(const std::string& name) const {
    const size_t line = page_.find("\n" + name);
    return line == std::string::npos ? 0 : atof(&page_[line + 1 + name.size()]);
  }
  // The duration in the recording; expects the same in the metrics and the report.
  uint64_t ExpectOneHold() {
    const std::string file = directory_.path() + "/run.rwa";
    const uint64_t hold_ns = HoldNs(ReadRecording(file).Process(pid_).verdict);
    EXPECT_GT(hold_ns, 0u);
    EXPECT_NEAR(Metric(kSum), static_cast<double>(hold_ns) / 1e9, 1e-9);
    const Finished report = Child({ClientPath(), "report", file}).Wait();
    EXPECT_THAT(report.output, HasSubstr("held " + HumanDuration(hold_ns) + " "));
    return hold_ns;
  }

  const ExecutableDirectory directory_;
  pid_t pid_ = 0;
  std::string page_;  // the last page of metrics
};

TEST_F(HoldsTest, TheLogHasTheRecordedDuration) {
  const std::string log = RunWindow({});
  const std::string held = HumanDuration(ExpectOneHold());
  EXPECT_THAT(log, HasSubstr(absl::StrCat("(pid ", pid_, "), held ", held, "\n")));
  EXPECT_THAT(log, HasSubstr("held median " + held + ", p99 " + held));
}

TEST_F(HoldsTest, JsonHasTheRecordedDuration) {
  const std::string output = RunWindow({"--json"});
  const uint64_t hold_ns = ExpectOneHold();
  size_t windows = 0;
  for (size_t begin = 0; begin < output.size();) {
    const size_t end = std::min(output.find('\n', begin), output.size());
    const auto event =
        nlohmann::json::parse(output.substr(begin, end - begin), nullptr, false);
    begin = end + 1;
    if (!event.is_object() || event.value("event", "") != "window") continue;
    ++windows;
    EXPECT_EQ(event.value("hold_ns", uint64_t{0}), hold_ns) << event;
  }
  EXPECT_EQ(windows, 1u) << output;
}

}  // namespace
}  // namespace rocattach::testing_support
