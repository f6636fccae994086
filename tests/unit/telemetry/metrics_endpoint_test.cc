#include "userspace/telemetry/metrics_endpoint.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schemas/export/prometheus_client.pb.h"
#include "tests/temporary_directory.h"
#include "tests/unit/telemetry/http_client.h"

namespace rocattach {
namespace {

using testing_support::Get;
using testing_support::HttpClient;

NodeSnapshot Example() {
  NodeSnapshot node;
  node.boot_ns = 1;
  GpuSnapshot& gpu = node.gpus["GPU-1"];
  gpu.gpu.key = gpu.gpu.uuid = "GPU-1";
  gpu.gpu.architecture = "gfx90a";
  gpu.totals.operations = {3, 6'000'000};
  gpu.totals.durations.Add(1'000'000);
  gpu.totals.durations.Add(1'000'000);
  gpu.totals.durations.Add(4'000'000);
  node.run.hold_powers.Add(300'000);
  node.run.dispatches = 3;
  node.windows[{"attached", "none"}] = 1;
  ProcessSnapshot process;
  process.pid = 7;
  // No name that a process gives itself may break the format.
  process.comm = "a\"b\\c\nd";
  process.workload.pod = "trainer-0";
  process.workload.kube_namespace = "ml";
  process.gpus["GPU-1"] = {3, 6'000'000};
  process.copies[2] = {1, 4096, 1000};
  process.counters[{"GPU-1", "SQ_WAVES"}] = {64, 1};
  process.start_wall_ns = 1'772'368'200'250'000'000;
  process.rocm = "6.4.3";
  process.kernels.push_back({0xabc, "_Z5ScalePffi", {2, 5'000'000}});
  process.kernels.push_back({0xdef, std::string(2000, 'x'), {1, 1'000'000}});
  process.has_other_kernels = true;
  node.processes.push_back(process);
  process.pid = 8;
  node.processes.push_back(process);
  gpu.partition = 0;
  gpu.vram_bytes = 64'000'000'000;
  gpu.vram_used_bytes = 5'000'000;
  gpu.busy_percent = 37;
  gpu.driver = "6.12.12";
  node.targets = {{"attached", 2}, {"open", 1}, {"ending", 0}};
  node.ring_fill = 0.25;
  node.overhead_ns = 1'500'000'000;
  // GPU use of one attached process, and of one that is not attached.
  ProcessUseSnapshot use;
  use.id = {7, 0};
  use.comm = process.comm;
  use.workload = process.workload;
  ProcessGpuUse& on_gpu = use.gpus["GPU-1"];
  on_gpu.kfd_vram_bytes = 4096;
  on_gpu.drm_vram_bytes = 1024;
  on_gpu.sdma_us = 2'500'000;
  on_gpu.cu_occupancy = 12;
  on_gpu.evicted_ms = 1500;
  on_gpu.engine_ns["gfx"] = 2'000'000'000;
  node.uses.push_back(use);
  use.id = {9, 5};
  use.comm = "other";
  use.uid = 1001;
  use.workload = {};
  use.workload.executable = "/opt/other";
  use.workload.container_id = "abc";
  use.gpus["GPU-1"] = {};
  use.gpus["GPU-1"].drm_vram_bytes = 77;
  node.uses.push_back(use);
  WorkloadUseSnapshot workload;
  workload.workload = process.workload;
  workload.gpus["GPU-1"].vram_bytes = 4096;
  workload.gpus["GPU-1"].sdma_us = 2'500'000;
  node.workload_uses.push_back(workload);
  workload.workload = {};
  workload.workload.container_id = "abc";
  node.workload_uses.push_back(workload);
  node.uses_age_ns = 500'000'000;
  node.source_failures[{"kfd", "malformed"}] = 2;
  node.window_losses = WindowLosses{.events = 1,
                                    .mappings = 2,
                                    .opens = 9,
                                    .looks_left_out = 10,
                                    .over_budget = 3,
                                    .unclaimed = 4,
                                    .window_deadlines = 5,
                                    .mapping_deadlines = 6,
                                    .mapping_holds = 7,
                                    .unattended_ns = 1'500'000'000,
                                    .kept_threads = 8};
  return node;
}

struct FakeSource : MetricsSource {
  absl::StatusOr<NodeSnapshot> CaptureSnapshot(MetricsConsumer consumer) override {
    ++(consumer == MetricsConsumer::kScrape ? scrapes : views);
    if (!alive.ok()) return alive;
    return node;
  }
  absl::Status CheckAlive() override { return alive; }
  absl::Status CheckReady() override { return ready; }

  NodeSnapshot node = Example();
  absl::Status alive, ready;
  int scrapes = 0, views = 0;
};

class MetricsEndpointTest : public testing::Test {
 protected:
  void SetUp() override {
    auto endpoint =
        MetricsEndpoint::Start(*ParseListenAddress("127.0.0.1:0"), &source_);
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    endpoint_ = *std::move(endpoint);
  }
  std::string Page(const std::string& path) { return Get(endpoint_->address(), path); }
  std::string Body(const std::string& path) {
    const std::string page = Page(path);
    EXPECT_EQ(page.substr(9, 3), "200") << page;
    return page.substr(page.find("\r\n\r\n") + 4);
  }

  FakeSource source_;
  std::unique_ptr<MetricsEndpoint> endpoint_;
};

TEST_F(MetricsEndpointTest, SeriesHaveTheirLabels) {
  const std::string text = Body("/metrics");
  const auto has = [&](const std::string& line) {
    EXPECT_NE(text.find("\n" + line + "\n"), std::string::npos) << line << "\n" << text;
  };
  const std::string target =
      R"(pid="7",comm="a\"b\\c\nd",namespace="ml",pod="trainer-0")";
  has("rocattach_target_dispatches_total{" + target + ",gpu=\"GPU-1\"} 3");
  has("rocattach_target_memcpy_bytes_total{" + target +
      ",direction=\"host_to_device\"} 4096");
  has("rocattach_target_pmc_total{" + target +
      ",gpu=\"GPU-1\",counter=\"SQ_WAVES\"} 64");
  has("rocattach_kernel_dispatches_total{" + target +
      ",kernel=\"0000000000000abc\"} 2");
  has("rocattach_kernel_dispatches_total{" + target + ",kernel=\"other\"} 0");
  has("rocattach_kernel_info{kernel=\"0000000000000abc\","
      "name=\"Scale(float*, float, int)\"} 1");
  has(R"(rocattach_gpu_pmc_owner{gpu="GPU-1",owner="none"} 1)");
  has(R"(rocattach_attach_total{result="attached",reason="none"} 1)");
  has(R"(rocattach_dispatch_duration_seconds_count{gpu="GPU-1"} 3)");
  has("rocattach_hold_duration_seconds_count 1");
  has("rocattach_process_gpu_memory_bytes{" + target + ",gpu=\"GPU-1\"} 4096");
  has("rocattach_process_sdma_seconds_total{" + target + ",gpu=\"GPU-1\"} 2.5");
  has("rocattach_process_cu_occupancy{" + target + ",gpu=\"GPU-1\"} 12");
  has("rocattach_process_evicted_seconds_total{" + target + ",gpu=\"GPU-1\"} 1.5");
  has("rocattach_process_drm_engine_seconds_total{" + target +
      ",gpu=\"GPU-1\",engine=\"gfx\"} 2");
  has(R"(rocattach_process_gpu_memory_bytes{pid="9",comm="other",gpu="GPU-1"} 77)");
  has("rocattach_process_info{pid=\"9\",comm=\"other\",uid=\"1001\","
      "executable=\"/opt/other\",container_id=\"abc\"} 1");
  has("rocattach_process_info{" + target + ",uid=\"0\"} 1");
  EXPECT_EQ(text.find("rocattach_process_sdma_seconds_total{pid=\"9\""),
            std::string::npos)
      << "what is not known has no series";
  has("rocattach_workload_gpu_memory_bytes{namespace=\"ml\",pod=\"trainer-0\","
      "gpu=\"GPU-1\"} 4096");
  has(R"(rocattach_workload_sdma_seconds_total{container_id="abc",gpu="GPU-1"} 2.5)");
  has(R"(rocattach_gpu_vram_used_bytes{gpu="GPU-1"} 5000000)");
  has(R"(rocattach_gpu_vram_size_bytes{gpu="GPU-1"} 64000000000)");
  has("rocattach_gpu_info{gpu=\"GPU-1\",uuid=\"GPU-1\",gfx=\"gfx90a\","
      "driver=\"6.12.12\",partition=\"0\"} 1");
  has(R"(rocattach_gpu_busy_ratio{gpu="GPU-1"} 0.37)");
  has("rocattach_target_info{" + target +
      ",uid=\"0\",state=\"running\",start_time=\"2026-03-01T12:30:00.250Z\","
      "rocm=\"6.4.3\"} 1");
  has(R"(rocattach_targets{state="attached"} 2)");
  has(R"(rocattach_targets{state="open"} 1)");
  has(R"(rocattach_targets{state="ending"} 0)");
  has("rocattach_ring_fill_ratio_max 0.25");
  has("rocattach_overhead_seconds_total 1.5");
  has("rocattach_gpu_use_age_seconds 0.5");
  has(R"(rocattach_events_lost_total{source="bpf"} 1)");
  has(R"(rocattach_events_lost_total{source="mmap"} 2)");
  has(R"(rocattach_events_lost_total{source="open"} 9)");
  has("rocattach_looks_left_out_total 10");
  has("rocattach_windows_over_budget_total 3");
  has("rocattach_windows_unclaimed_total 4");
  has(R"(rocattach_hold_deadlines_total{at="window"} 5)");
  has(R"(rocattach_hold_deadlines_total{at="mapping"} 6)");
  has("rocattach_oldest_event_age_seconds 1.5");
  has("rocattach_kept_threads 8");
  has("rocattach_mapping_holds_total 7");
  has(R"(rocattach_source_failures_total{source="kfd",reason="malformed"} 2)");
  EXPECT_EQ(text.find("job_id"), std::string::npos) << "what is not known has no label";
}

TEST_F(MetricsEndpointTest, BucketsEndAtPowersOfTwoOfASecond) {
  const std::string text = Body("/metrics");
  const auto has = [&](const std::string& line) {
    EXPECT_NE(text.find("\n" + line + "\n"), std::string::npos) << line << "\n" << text;
  };
  // The durations are 1 ms, 1 ms and 4 ms.
  has(R"(rocattach_dispatch_duration_seconds_bucket{gpu="GPU-1",le="0.000244140625"} 0)");
  has(R"(rocattach_dispatch_duration_seconds_bucket{gpu="GPU-1",le="0.00390625"} 2)");
  has(R"(rocattach_dispatch_duration_seconds_bucket{gpu="GPU-1",le="0.015625"} 3)");
  has(R"(rocattach_dispatch_duration_seconds_bucket{gpu="GPU-1",le="64"} 3)");
  has(R"(rocattach_dispatch_duration_seconds_bucket{gpu="GPU-1",le="+Inf"} 3)");
  has(R"(rocattach_hold_duration_seconds_bucket{le="0.000244140625"} 0)");
  has(R"(rocattach_hold_duration_seconds_bucket{le="0.00048828125"} 1)");
}

// Parses a page of delimited messages.
std::vector<prometheus_client::MetricFamily> ParsePage(const std::string& page) {
  std::vector<prometheus_client::MetricFamily> families;
  google::protobuf::io::ArrayInputStream stream(page.data(),
                                                static_cast<int>(page.size()));
  for (;;) {
    prometheus_client::MetricFamily family;
    bool end = false;
    if (!google::protobuf::util::ParseDelimitedFromZeroCopyStream(&family, &stream,
                                                                  &end)) {
      EXPECT_TRUE(end) << "not a sequence of messages";
      return families;
    }
    families.push_back(std::move(family));
  }
}

// The request of a page from evil.example, a name that resolves to this machine.
TEST_F(MetricsEndpointTest, AnswersToNoForeignName) {
  for (const char* path : {"/", "/metrics", "/processes", "/kernels", "/healthz",
                           "http://evil.example/"}) {
    HttpClient client(endpoint_->address());
    client.Send(absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: evil.example:9410\r\n",
                             "Connection: close\r\n\r\n"));
    const std::string answer = client.Receive();
    EXPECT_EQ(answer.find("HTTP/1.1 421 Misdirected Request"), 0u) << path;
    EXPECT_EQ(answer.find("trainer"), std::string::npos) << path;
  }
  HttpClient old(endpoint_->address());
  old.Send("GET /healthz HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.Receive().find("HTTP/1.1 200"), 0u);
}

TEST_F(MetricsEndpointTest, ProtobufAnswersContainNativeHistogramsToo) {
  // There are two caches: the answer in one format is not used for the other.
  for (int round = 0; round < 2; ++round) {
    EXPECT_NE(Body("/metrics").find("# HELP"), std::string::npos);
    HttpClient client(endpoint_->address());
    client.Send(
        "GET /metrics HTTP/1.1\r\nHost: [::1]:9410\r\nConnection: close\r\n"
        "Accept: application/vnd.google.protobuf;proto=io.prometheus.client."
        "MetricFamily;encoding=delimited\r\nAccept: text/plain;q=0.5\r\n\r\n");
    const std::string answer = client.Receive();
    EXPECT_NE(answer.find("Content-Type: application/vnd.google.protobuf; "
                          "proto=io.prometheus.client.MetricFamily; "
                          "encoding=delimited\r\n"),
              std::string::npos)
        << answer.substr(0, 400);
    const auto families = ParsePage(answer.substr(answer.find("\r\n\r\n") + 4));
    EXPECT_GT(families.size(), 40u);
    const prometheus_client::MetricFamily* durations = nullptr;
    for (const auto& family : families) {
      if (family.name() == "rocattach_dispatch_duration_seconds") durations = &family;
      if (family.name() == "rocattach_records_total") {
        EXPECT_EQ(family.type(), prometheus_client::COUNTER);
        EXPECT_EQ(family.metric(0).label(0).name(), "kind");
        EXPECT_EQ(family.metric(0).counter().value(), 3);
      }
      if (family.name() == "rocattach_recording_paused") {
        EXPECT_EQ(family.type(), prometheus_client::GAUGE);
        EXPECT_TRUE(family.metric(0).has_gauge());
      }
    }
    ASSERT_NE(durations, nullptr);
    EXPECT_EQ(durations->type(), prometheus_client::HISTOGRAM);
    ASSERT_EQ(durations->metric_size(), 1);
    const prometheus_client::Histogram& histogram = durations->metric(0).histogram();
    EXPECT_EQ(histogram.sample_count(), 3u);
    EXPECT_DOUBLE_EQ(histogram.sample_sum(), 0.006);
    EXPECT_EQ(histogram.schema(), 0);
    EXPECT_EQ(histogram.zero_count(), 0u);
    EXPECT_GT(histogram.zero_threshold(), 0);
    // 2^-10 s < 1 ms <= 2^-9 s, and 2^-8 s < 4 ms <= 2^-7 s.
    ASSERT_EQ(histogram.positive_span_size(), 2);
    EXPECT_EQ(histogram.positive_span(0).offset(), -9);
    EXPECT_EQ(histogram.positive_span(0).length(), 1u);
    EXPECT_EQ(histogram.positive_span(1).offset(), 1);
    EXPECT_EQ(histogram.positive_span(1).length(), 1u);
    ASSERT_EQ(histogram.positive_delta_size(), 2);
    EXPECT_EQ(histogram.positive_delta(0), 2);
    EXPECT_EQ(histogram.positive_delta(1), -1);
    // The classic buckets are there as well.
    EXPECT_EQ(histogram.bucket_size(), 14);
    EXPECT_EQ(histogram.bucket(13).cumulative_count(), 3u);
    EXPECT_EQ(histogram.bucket(13).upper_bound(), 64);
  }
}

TEST_F(MetricsEndpointTest, NoSeriesAppearsTwice) {
  std::set<std::string> seen;
  for (absl::string_view line : absl::StrSplit(Body("/metrics"), '\n')) {
    if (line.empty() || line[0] == '#') continue;
    EXPECT_TRUE(seen.emplace(line.substr(0, line.rfind(' '))).second) << line;
  }
  EXPECT_GT(seen.size(), 50u);
}

TEST_F(MetricsEndpointTest, PromtoolFindsNothing) {
  if (system("command -v promtool >/dev/null") != 0) {
    if (getenv("CI") != nullptr) FAIL() << "no promtool";
    GTEST_SKIP() << "no promtool; scripts/setup installs it";
  }
  const testing_support::TemporaryDirectory directory;
  std::ofstream(directory / "metrics") << Body("/metrics");
  const std::string output = directory / "output";
  const int status = system(absl::StrCat("promtool check metrics <", directory.path(),
                                         "/metrics >", output, " 2>&1")
                                .c_str());
  std::string said;
  std::getline(std::ifstream(output), said, '\0');
  EXPECT_EQ(status, 0) << said;
  EXPECT_EQ(said, "");
}

TEST_F(MetricsEndpointTest, TheViewOfProcessesIsJson) {
  const auto json = nlohmann::json::parse(Body("/processes"));
  ASSERT_EQ(json["processes"].size(), 3u);
  EXPECT_EQ(json["processes"][0]["use"][0]["vram_bytes"], 4096);
  EXPECT_EQ(json["processes"][0]["use"][0]["drm_vram_bytes"], 1024);
  EXPECT_EQ(json["processes"][0]["attached"], true);
  EXPECT_FALSE(json["processes"][1].contains("use"));
  EXPECT_EQ(json["processes"][2]["pid"], 9);
  EXPECT_EQ(json["processes"][2]["attached"], false);
  EXPECT_FALSE(json["processes"][2]["use"][0].contains("sdma_us"));
  EXPECT_EQ(json["gpus"][0]["vram_used_bytes"], 5'000'000);
  const auto& process = json["processes"][0];
  EXPECT_EQ(process["pid"], 7);
  EXPECT_EQ(process["workload"]["pod"], "trainer-0");
  EXPECT_EQ(process["gpus"][0]["time_ns"], 6'000'000);
  EXPECT_EQ(process["kernels"][0]["name"], "Scale(float*, float, int)");
  EXPECT_EQ(process["copies"][0]["bytes"], 4096);
  EXPECT_EQ(json["gpus"][0]["architecture"], "gfx90a");
  EXPECT_EQ(source_.views, 1);
  EXPECT_EQ(source_.scrapes, 0) << "looking does not use up the last values";
}

TEST_F(MetricsEndpointTest, NamesOfKernelsCanBeLookedUpInFull) {
  const auto json = nlohmann::json::parse(Body("/kernels"));
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["id"], "0000000000000abc");
  EXPECT_EQ(json[0]["symbol"], "_Z5ScalePffi");
  EXPECT_EQ(json[1]["name"], std::string(2000, 'x'));
}

TEST_F(MetricsEndpointTest, ManyScrapersCostAsMuchAsOne) {
  for (int i = 0; i < 20; ++i) Body("/metrics");
  EXPECT_LE(source_.scrapes, 10);
}

TEST_F(MetricsEndpointTest, HealthPagesReportErrors) {
  EXPECT_EQ(Body("/healthz"), "ok\n");
  EXPECT_EQ(Body("/readyz"), "ok\n");
  source_.ready = absl::UnavailableError("starting");
  EXPECT_EQ(Page("/readyz").substr(9, 3), "503");
  EXPECT_EQ(Body("/healthz"), "ok\n");
  source_.alive = absl::DeadlineExceededError("hangs");
  EXPECT_TRUE(absl::EndsWith(Page("/healthz"), "hangs\n"));
  EXPECT_EQ(Page("/metrics").substr(9, 3), "503");
  EXPECT_EQ(Page("/nothing").substr(9, 3), "404");
}

}  // namespace
}  // namespace rocattach
