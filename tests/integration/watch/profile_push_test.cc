// Profiles are pushed to a receiver that reads them with a third-party library.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/push_receiver.h"

namespace rocattach::testing_support {
namespace {

using Json = nlohmann::json;

class ProfilePushTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_PRIVILEGES();
    const std::string oracles = ROCATTACH_TEST_ORACLES;
    if (!PushReceiver::HasOracles(
            oracles, {"pprof-format/index.js", "protobufjs/protobuf.js"})) {
      const char* missing = "no reader of profiles; scripts/setup --oracles fetches it";
      if (getenv("CI") != nullptr) FAIL() << missing;
      GTEST_SKIP() << missing;
    }
    receiver_.emplace(ROCATTACH_TEST_RECEIVER, oracles);
    target_ = absl::StrCat(GetParam(), "=", receiver_->url());
  }
  void TearDown() override { unsetenv("ROCATTACH_PROFILE_PUSH_HEADERS"); }

  std::optional<PushReceiver> receiver_;
  std::string target_;
};

TEST_P(ProfilePushTest, ProfileSumsMatchTheCountsOfThePrograms) {
  const bool parca = std::string(GetParam()) == "parca";
  const std::vector<std::string> command =
      OnSimgpu({"hsa_dispatch", "-n", "300", "--copies", "4", "--rounds", "3",
                "--sleep-msec", "300"});
  const Child::Options job = {.environment = {"SLURM_JOB_ID=4711"}};
  const Finished native = Child(command, job).Wait();
  setenv("ROCATTACH_PROFILE_PUSH_HEADERS", "x-token=abc%20def", 1);
  WatcherProcess watcher(
      {"--auto", "--profile-push", target_, "--profile-push-interval", "0.2"});
  ASSERT_TRUE(watcher.ready());
  Child target(command, job);
  const Finished finished = target.Wait();
  EXPECT_EQ(finished.status, native.status);
  EXPECT_EQ(finished.errors, native.errors);
  EXPECT_TRUE(watcher.Stop().exited_with(0));

  // The receiver's line about the last push may come later.
  const int64_t dispatches = Reported(finished.output, "dispatches");
  std::map<std::string, int64_t> by_kernel;
  int64_t sum = 0, time_ns = 0, bytes = 0;
  std::vector<Json> requests;
  const auto add_up = [&] {
    by_kernel.clear();
    sum = time_ns = bytes = 0;
    requests = receiver_->Requests();
    for (const Json& request : requests) {
      if (!request.at("accepted").get<bool>()) continue;
      for (const Json& sample : request.at("profiles").at(0).at("samples")) {
        by_kernel[sample.at("stack").at(0)] += sample.at("values").at(1).get<int64_t>();
        time_ns += sample.at("values").at(0).get<int64_t>();
        sum += sample.at("values").at(1).get<int64_t>();
        bytes += sample.at("values").at(2).get<int64_t>();
      }
    }
    return sum >= dispatches;
  };
  EXPECT_TRUE(Eventually(add_up));
  EXPECT_EQ(sum, dispatches);
  EXPECT_EQ(by_kernel["increment"], Reported(finished.output, "increment"));
  EXPECT_EQ(bytes, Reported(finished.output, "bytes"));
  EXPECT_GT(time_ns, 0);
  // The first push was refused, and sent again.
  ASSERT_GE(requests.size(), 2u);
  EXPECT_EQ(requests[0].at("accepted"), false);
  for (const Json& request : requests) {
    EXPECT_EQ(request.at("path"),
              parca ? "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw"
                    : "/ingest");
    EXPECT_EQ(request.at("token"), "abc def");
    EXPECT_EQ(request.at("labels").at("__name__"), "rocattach_gpu");
    EXPECT_NE(request.at("labels").value("node", ""), "");
    const Json& profile = request.at("profiles").at(0);
    EXPECT_EQ(profile.at("types"),
              Json::array({Json::array({"gpu_kernel_time", "nanoseconds"}),
                           Json::array({"dispatches", "count"}),
                           Json::array({"copied_bytes", "bytes"})}));
    for (const Json& sample : profile.at("samples")) {
      EXPECT_EQ(sample.at("stack").back(), "hsa_dispatch") << sample;
      EXPECT_EQ(sample.at("labels").value("pid", ""),
                parca ? absl::StrCat(target.pid()) : "");
    }
    if (parca) continue;
    EXPECT_LE(request.at("span").at(0), request.at("span").at(1));
    EXPECT_EQ(request.at("types").at("gpu_kernel_time").at("units"), "nanoseconds");
  }
  EXPECT_EQ(requests.back().at("labels").value("job_id", ""), "4711");
}

INSTANTIATE_TEST_SUITE_P(Servers, ProfilePushTest,
                         testing::Values("parca", "pyroscope"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace rocattach::testing_support
