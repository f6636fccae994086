// Metrics are pushed to a receiver that decodes them with OpenTelemetry's own decoder.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {
namespace {

using Json = nlohmann::json;

class OtlpTest : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_PRIVILEGES();
    const std::string oracles = ROCATTACH_TEST_ORACLES;
    struct stat unused = {};
    const bool fetched =
        stat((oracles + "/otlp-decoder/root.js").c_str(), &unused) == 0 &&
        stat((oracles + "/protobufjs/protobuf.js").c_str(), &unused) == 0;
    if (!fetched || system("command -v node >/dev/null") != 0) {
      const char* missing = "no decoder of OTLP; scripts/setup --oracles fetches it";
      if (getenv("CI") != nullptr) FAIL() << missing;
      GTEST_SKIP() << missing;
    }
    Child::Options options;
    options.dies_with_us = true;
    receiver_ = std::make_unique<Child>(
        std::vector<std::string>{"node", ROCATTACH_TEST_RECEIVER, oracles}, options);
    ASSERT_TRUE(Eventually(
        [&] { return receiver_->PollOutput().find('\n') != std::string::npos; }));
    url_ = absl::StrCat(
        "http://127.0.0.1:",
        receiver_->PollOutput().substr(0, receiver_->PollOutput().find('\n')));
  }
  void TearDown() override {
    unsetenv("OTEL_EXPORTER_OTLP_HEADERS");
    if (receiver_ == nullptr) return;
    receiver_->Signal(SIGKILL);
    (void)receiver_->Wait();
  }

  // What has arrived so far.
  std::vector<Json> Requests() {
    std::vector<Json> requests;
    const std::string output = receiver_->PollOutput();
    for (absl::string_view line : absl::StrSplit(output, '\n')) {
      Json json = Json::parse(std::string(line), nullptr, false);
      if (json.is_object()) requests.push_back(std::move(json));
    }
    return requests;
  }

  std::unique_ptr<Child> receiver_;
  std::string url_;
};

TEST_F(OtlpTest, AnIndependentDecoderReadsWhatProgramsHaveCounted) {
  const std::vector<std::string> command = OnSimgpu({"hsa_dispatch", "-n", "300"});
  const Child::Options job = {.environment = {"SLURM_JOB_ID=4711"}};
  const Finished native = Child(command, job).Wait();
  setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-token=abc%20def", 1);
  WatcherProcess watcher({"--auto", "--otlp-endpoint", url_, "--otlp-interval", "0.2"});
  ASSERT_TRUE(watcher.ready());
  // It is refused, and tried again.
  ASSERT_TRUE(Eventually([&] { return !Requests().empty(); }));
  Child target(command, job);
  const Finished finished = target.Wait();
  EXPECT_EQ(finished.status, native.status);
  EXPECT_EQ(finished.errors, native.errors);
  EXPECT_TRUE(watcher.Stop().exited_with(0));

  // The last push was accepted; what the receiver prints of it may follow.
  std::vector<Json> requests;
  ASSERT_TRUE(Eventually([&] {
    requests = Requests();
    return !requests.empty() && requests.back().at("accepted").get<bool>();
  }));
  EXPECT_EQ(requests[0].at("accepted"), false);
  std::map<std::string, Json> metrics;  // the last of each name, of the process
  Json attributes;
  for (const Json& request : requests) {
    EXPECT_EQ(request.at("path"), "/v1/metrics");
    EXPECT_EQ(request.at("type"), "application/x-protobuf");
    EXPECT_EQ(request.at("token"), "abc def");
    EXPECT_EQ(request.at("resources").at(0).at("attributes").at("service.name"),
              "rocattach-watch");
    if (!request.at("accepted").get<bool>()) continue;
    for (const Json& resource : request.at("resources")) {
      if (resource.at("attributes").value("process.pid", 0) != target.pid()) continue;
      attributes = resource.at("attributes");
      for (const auto& [name, metric] : resource.at("metrics").items()) {
        metrics[name] = metric;
      }
    }
  }
  ASSERT_TRUE(metrics.contains("rocattach_target_dispatches")) << requests.back();
  const Json& dispatches = metrics["rocattach_target_dispatches"].at("points").at(0);
  EXPECT_EQ(dispatches.at("value"), Reported(finished.output, "dispatches"));
  EXPECT_TRUE(dispatches.at("started"));
  const Json& time = metrics["rocattach_target_gpu_time_seconds"];
  EXPECT_EQ(time.at("unit"), "s");
  EXPECT_GT(time.at("points").at(0).at("value"), 0);
  EXPECT_EQ(attributes.value("slurm.job.id", ""), "4711") << attributes;
  EXPECT_NE(attributes.value("host.name", ""), "");
}

TEST_F(OtlpTest, ACollectorThatIsGoneIsReportedAndChangesNothingElse) {
  const Finished native = RunTarget({"hsa_dispatch", "-n", "50"});
  receiver_->Signal(SIGKILL);
  (void)receiver_->Wait();
  receiver_.reset();
  WatcherProcess watcher({"--auto", "--otlp-endpoint", url_, "--otlp-interval", "0.1"});
  ASSERT_TRUE(watcher.ready());
  const Finished finished = RunTarget({"hsa_dispatch", "-n", "50"});
  EXPECT_EQ(finished.status, native.status);
  EXPECT_EQ(finished.errors, native.errors);
  EXPECT_TRUE(
      Eventually([&] { return watcher.PollEvents("metrics_push_failed") == 1; }));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Recording recording = ReadRecording(watcher.recording());
  EXPECT_TRUE(recording.ended);
}

}  // namespace
}  // namespace rocattach::testing_support
