#include "userspace/push/metrics_pusher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tests/await.h"
#include "tests/unit/export/unzipped.h"
#include "tests/unit/push/scripted_collector.h"

namespace rocattach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::ScriptedCollector;

struct FakeSource : MetricsSource {
  absl::StatusOr<NodeSnapshot> CaptureSnapshot(MetricsConsumer consumer) override {
    EXPECT_EQ(consumer, MetricsConsumer::kPush);
    NodeSnapshot node;
    node.boot_ns = clock.load();
    node.run.dispatches = ++takes;
    return node;
  }
  absl::Status CheckAlive() override { return absl::OkStatus(); }
  absl::Status CheckReady() override { return absl::OkStatus(); }
  std::atomic<uint64_t> takes = 0;
  std::atomic<uint64_t> clock = 0;  // CLOCK_BOOTTIME
};

class MetricsPusherTest : public testing::Test {
 protected:
  void Start(const std::string& url, uint64_t interval_msec = 50,
             ClockFunction clock = CaptureClockSnapshot) {
    auto settings =
        MakeOtlpSettings(url, interval_msec, [](const char*) { return ""; });
    ASSERT_TRUE(settings.ok()) << settings.status();
    settings->timeout_msec = 500;
    auto pusher = MetricsPusher::Start(
        *settings, &source_, &counts_,
        [this](const absl::Status& state) {
          absl::MutexLock lock(&mutex_);
          states_.emplace_back(state.message());
        },
        std::move(clock));
    ASSERT_TRUE(pusher.ok()) << pusher.status();
    pusher_ = *std::move(pusher);
  }
  std::vector<std::string> States() {
    absl::MutexLock lock(&mutex_);
    return states_;
  }

  FakeSource source_;
  PushCounts counts_;
  absl::Mutex mutex_;
  std::vector<std::string> states_;
  std::unique_ptr<MetricsPusher> pusher_;
};

TEST_F(MetricsPusherTest, PushesTheTotalsAgainAndAgain) {
  ScriptedCollector collector;
  Start(collector.url());
  const auto requests = collector.Await(3);
  ASSERT_GE(requests.size(), 3u);
  uint64_t before = 0;
  for (const auto& request : requests) {
    EXPECT_THAT(request.head, HasSubstr("POST /v1/metrics HTTP/1.1\r\n"));
    EXPECT_THAT(request.head, HasSubstr("Content-Type: application/x-protobuf\r\n"));
    EXPECT_THAT(request.head, HasSubstr("Content-Encoding: gzip\r\n"));
    EXPECT_THAT(request.head, HasSubstr("User-Agent: OTel-OTLP-Exporter-rocattach/"));
    otlp::ExportMetricsServiceRequest message;
    ASSERT_TRUE(message.ParseFromString(Unzipped(request.body)));
    for (const auto& metric : message.resource_metrics(0).scope_metrics(0).metrics()) {
      if (metric.name() != "rocattach_records") continue;
      const double dispatches = metric.sum().data_points(0).as_double();
      EXPECT_GT(dispatches, static_cast<double>(before));
      before = static_cast<uint64_t>(dispatches);
    }
  }
  EXPECT_GT(before, 0u);
  pusher_.reset();
  EXPECT_GE(counts_.accepted, 3u);
  EXPECT_EQ(counts_.failed, 0u);
  EXPECT_THAT(States(), ElementsAre());
}

// At each push the wall clock is an hour ahead of or behind the last one.
TEST_F(MetricsPusherTest, AClockThatJumpsIsReadAtEachPush) {
  constexpr uint64_t kSecond = 1'000'000'000, kHour = 3600 * kSecond,
                     kWall = 1'700'000'000 * kSecond;
  ScriptedCollector collector;
  std::atomic<uint64_t> reads = 0;
  Start(collector.url(), 50, [&] {
    const uint64_t read = reads++;
    ClockSnapshot clock;
    clock.boottime_ns = source_.clock = (10 + read) * kSecond;
    // The start, then ahead, behind, ahead …
    clock.realtime_ns = kWall + read * kSecond;
    if (read > 0) clock.realtime_ns += read % 2 == 1 ? kHour : -kHour;
    return clock;
  });
  const auto requests = collector.Await(4);
  ASSERT_GE(requests.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    otlp::ExportMetricsServiceRequest message;
    ASSERT_TRUE(message.ParseFromString(Unzipped(requests[i].body)));
    for (const auto& metric : message.resource_metrics(0).scope_metrics(0).metrics()) {
      if (metric.name() != "rocattach_records") continue;
      const otlp::NumberDataPoint& point = metric.sum().data_points(0);
      if (i % 2 == 0) {
        EXPECT_EQ(point.start_time_unix_nano(), kWall);
        EXPECT_GE(point.time_unix_nano(), kWall + kHour);
      } else {
        EXPECT_EQ(point.start_time_unix_nano(), point.time_unix_nano());
        EXPECT_LT(point.time_unix_nano(), kWall);
        EXPECT_GT(point.time_unix_nano(), kWall - 2 * kHour);
      }
    }
  }
  pusher_.reset();
}

TEST_F(MetricsPusherTest, FailuresAreRetriedAndReportedOnce) {
  ScriptedCollector collector({ScriptedCollector::Answer("503 Service Unavailable"),
                               ScriptedCollector::Answer("429 Too Many Requests"),
                               ScriptedCollector::Ok()});
  Start(collector.url());
  ASSERT_GE(collector.Await(4).size(), 4u);
  pusher_.reset();
  EXPECT_EQ(counts_.failed, 2u);
  EXPECT_GE(counts_.accepted, 2u);
  const auto states = States();
  ASSERT_EQ(states.size(), 2u);
  EXPECT_THAT(states[0], HasSubstr("status 503"));
  EXPECT_EQ(states[1], "");
}

TEST_F(MetricsPusherTest, ARefusalWaitsForTheNextInterval) {
  ScriptedCollector collector({ScriptedCollector::Answer("404 Not Found"),
                               ScriptedCollector::Answer("401 Unauthorized")});
  Start(collector.url());
  ASSERT_GE(collector.Await(3).size(), 3u);
  pusher_.reset();
  EXPECT_EQ(counts_.failed, 2u);
  ASSERT_FALSE(States().empty());
  EXPECT_THAT(States()[0], HasSubstr("usually 4318"));
}

TEST_F(MetricsPusherTest, RejectedPointsAreCounted) {
  otlp::ExportMetricsServiceResponse response;
  response.mutable_partial_success()->set_rejected_data_points(3);
  response.mutable_partial_success()->set_error_message("too\x1b[31m old");
  ScriptedCollector collector({ScriptedCollector::Ok(response.SerializeAsString())});
  Start(collector.url());
  ASSERT_GE(collector.Await(2).size(), 2u);
  pusher_.reset();
  EXPECT_EQ(counts_.rejected_points, 3u);
  const auto states = States();
  ASSERT_EQ(states.size(), 2u);
  EXPECT_THAT(states[0], HasSubstr("rejected 3 data points: too"));
  EXPECT_EQ(states[0].find('\x1b'), std::string::npos);
}

TEST_F(MetricsPusherTest, RedirectsAreNotFollowed) {
  ScriptedCollector other;
  ScriptedCollector collector({ScriptedCollector::Answer(
      "307 Temporary Redirect", "Location: " + other.url() + "/v1/metrics\r\n")});
  Start(collector.url());
  ASSERT_GE(collector.Await(2).size(), 2u);
  pusher_.reset();
  EXPECT_EQ(counts_.failed, 1u);
  EXPECT_EQ(other.Await(0).size(), 0u);
}

// A collector that never answers, or floods, does not delay the end of the service.
TEST_F(MetricsPusherTest, TheLastPushIsBounded) {
  // Listens, but never accepts a connection.
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(fd.get(), raw, size), 0);
  ASSERT_EQ(listen(fd.get(), 1), 0);
  ASSERT_EQ(getsockname(fd.get(), raw, &size), 0);
  Start(absl::StrCat("http://127.0.0.1:", ntohs(address.sin_port)), 10);
  testing_support::Await([&] { return source_.takes != 0; }, "the first push");
  pusher_.reset();
  EXPECT_EQ(counts_.accepted, 0u);
  EXPECT_GE(counts_.failed, 1u);
}

TEST_F(MetricsPusherTest, PushesAtTheEnd) {
  ScriptedCollector collector;
  Start(collector.url(), /*interval_msec=*/3'600'000);
  pusher_.reset();
  EXPECT_EQ(collector.Await(1).size(), 1u);
  EXPECT_EQ(counts_.accepted, 1u);
}

TEST_F(MetricsPusherTest, AnswersOfAnySizeAreCut) {
  ScriptedCollector collector({ScriptedCollector::Ok(std::string(8 << 20, 'x'))});
  Start(collector.url());
  ASSERT_GE(collector.Await(2).size(), 2u);
  pusher_.reset();
  EXPECT_GE(counts_.accepted, 2u);
}

}  // namespace
}  // namespace rocattach
