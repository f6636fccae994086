#include "userspace/push/profile_pusher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/unit/push/scripted_collector.h"

namespace rocattach {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing_support::ScriptedCollector;

// A process that completes one dispatch between two snapshots.
struct BusySource : MetricsSource {
  absl::StatusOr<NodeSnapshot> CaptureSnapshot(MetricsConsumer consumer) override {
    EXPECT_EQ(consumer, MetricsConsumer::kProfile);
    NodeSnapshot node;
    ProcessSnapshot& process = node.processes.emplace_back();
    process.pid = 7;
    process.comm = "train";
    process.kernels.push_back({1, "kernel", {++dispatches, 1000}});
    return node;
  }
  absl::Status CheckAlive() override { return absl::OkStatus(); }
  absl::Status CheckReady() override { return absl::OkStatus(); }
  std::atomic<uint64_t> dispatches = 0;
};

class ProfilePusherTest : public testing::Test {
 protected:
  void Start(const std::string& target) {
    auto settings = MakeProfilePushSettings(target, 50, [](const char*) { return ""; });
    ASSERT_TRUE(settings.ok()) << settings.status();
    auto pusher = ProfilePusher::Start(*settings, &source_, &counts_,
                                       [this](const absl::Status& state) {
                                         absl::MutexLock lock(&mutex_);
                                         states_.emplace_back(state.message());
                                       });
    ASSERT_TRUE(pusher.ok()) << pusher.status();
    pusher_ = *std::move(pusher);
  }
  std::vector<std::string> States() {
    absl::MutexLock lock(&mutex_);
    return states_;
  }

  BusySource source_;
  PushCounts counts_;
  absl::Mutex mutex_;
  std::vector<std::string> states_;
  std::unique_ptr<ProfilePusher> pusher_;
};

TEST_F(ProfilePusherTest, PushesToPyroscopeAtEachIntervalAndAtTheEnd) {
  ScriptedCollector server;
  Start("pyroscope=" + server.url());
  ASSERT_GE(server.Await(2).size(), 2u);
  pusher_.reset();
  for (const auto& request : server.Await(2)) {
    // libcurl may write hexadecimal digits in lower case.
    EXPECT_THAT(request.head,
                ContainsRegex("^POST /ingest\\?name=rocattach_gpu%7[Bb]node%3[Dd]"));
    EXPECT_THAT(request.head, HasSubstr("&from="));
    EXPECT_THAT(request.head,
                HasSubstr("Content-Type: multipart/form-data; boundary="));
    EXPECT_THAT(request.head, HasSubstr("User-Agent: rocattach-watch/"));
  }
  EXPECT_EQ(counts_.failed, 0u);
  EXPECT_GE(counts_.accepted, 2u);
  EXPECT_TRUE(States().empty());
}

// What the server has taken is not sent again by the last push.
TEST_F(ProfilePusherTest, AnAnswerUnderWayIsAwaitedAtTheEnd) {
  ScriptedCollector server;
  server.Hold(true);
  Start("pyroscope=" + server.url());
  ASSERT_EQ(server.Await(1).size(), 1u);
  std::thread end([this] { pusher_.reset(); });
  absl::SleepFor(absl::Milliseconds(50));  // usually enough to be stopping
  server.Hold(false);
  end.join();
  EXPECT_EQ(counts_.failed, 0u);
  EXPECT_EQ(server.Await(1).size(), counts_.accepted);
}

TEST_F(ProfilePusherTest, FailuresAreRetriedAndReportedOnce) {
  ScriptedCollector server({ScriptedCollector::Answer("503 Service Unavailable"),
                            ScriptedCollector::Answer("429 Too Many Requests")});
  Start("pyroscope=" + server.url());
  ASSERT_GE(server.Await(3).size(), 3u);
  pusher_.reset();
  EXPECT_EQ(counts_.failed, 2u);
  EXPECT_GE(counts_.accepted, 1u);
  ASSERT_EQ(States().size(), 2u);
  EXPECT_THAT(States()[0], HasSubstr("status 503"));
  EXPECT_EQ(States()[1], "");
}

TEST_F(ProfilePusherTest, AnAnswerThatIsNotParcasIsReported) {
  ScriptedCollector server;  // answers 200 without a gRPC status
  Start("parca=" + server.url());
  ASSERT_GE(server.Await(1).size(), 1u);
  pusher_.reset();
  EXPECT_GE(counts_.failed, 1u);
  EXPECT_EQ(counts_.accepted, 0u);
  ASSERT_EQ(States().size(), 1u);
  EXPECT_THAT(States()[0], HasSubstr("is this a Parca server?"));
}

TEST_F(ProfilePusherTest, AStatusInAHeaderCounts) {
  ScriptedCollector server(
      {ScriptedCollector::Answer("200 OK", "grpc-status: 0\r\n"),
       ScriptedCollector::Answer("200 OK", "grpc-status: 14\r\n")});
  Start("parca=" + server.url());
  ASSERT_GE(server.Await(2).size(), 2u);
  pusher_.reset();
  EXPECT_GE(counts_.accepted, 1u);
  EXPECT_GE(counts_.failed, 1u);
}

}  // namespace
}  // namespace rocattach
