// Metrics are pushed to a receiver that decodes them with OpenTelemetry's own decoder.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/push_receiver.h"

namespace rocattach::testing_support {
namespace {

using Json = nlohmann::json;

class OtlpTest : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_PRIVILEGES();
    const std::string oracles = ROCATTACH_TEST_ORACLES;
    if (!PushReceiver::HasOracles(oracles,
                                  {"otlp-decoder/root.js", "protobufjs/protobuf.js"})) {
      const char* missing = "no decoder of OTLP; scripts/setup --oracles fetches it";
      if (getenv("CI") != nullptr) FAIL() << missing;
      GTEST_SKIP() << missing;
    }
    receiver_.emplace(ROCATTACH_TEST_RECEIVER, oracles);
    url_ = receiver_->url();
  }
  void TearDown() override { unsetenv("OTEL_EXPORTER_OTLP_HEADERS"); }

  std::optional<PushReceiver> receiver_;
  std::string url_;
};

TEST_F(OtlpTest, IndependentDecoderReadsTheCountsOfThePrograms) {
  const std::vector<std::string> command = OnSimgpu({"hsa_dispatch", "-n", "300"});
  const Child::Options job = {.environment = {"SLURM_JOB_ID=4711"}};
  const Finished native = Child(command, job).Wait();
  setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-token=abc%20def", 1);
  WatcherProcess watcher({"--auto", "--otlp-endpoint", url_, "--otlp-interval", "0.2"});
  ASSERT_TRUE(watcher.ready());
  // The first push is refused, and is tried again.
  ASSERT_TRUE(Eventually([&] { return !receiver_->Requests().empty(); }));
  Child target(command, job);
  const Finished finished = target.Wait();
  EXPECT_EQ(finished.status, native.status);
  EXPECT_EQ(finished.errors, native.errors);
  EXPECT_TRUE(watcher.Stop().exited_with(0));

  // The last push was accepted; the receiver's line about it may come later.
  std::vector<Json> requests;
  ASSERT_TRUE(Eventually([&] {
    requests = receiver_->Requests();
    return !requests.empty() && requests.back().at("accepted").get<bool>();
  }));
  EXPECT_EQ(requests[0].at("accepted"), false);
  std::map<std::string, Json> metrics;  // by name, the last for the process
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
  receiver_->Kill();
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
