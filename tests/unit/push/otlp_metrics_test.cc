#include "userspace/push/otlp_metrics.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "userspace/base/clock.h"

namespace rocattach {
namespace {

using Attributes = std::map<std::string, std::string>;

Attributes ToMap(const google::protobuf::RepeatedPtrField<otlp::KeyValue>& list) {
  Attributes map;
  for (const otlp::KeyValue& attribute : list) {
    const otlp::AnyValue& value = attribute.value();
    EXPECT_EQ(map.count(attribute.key()), 0u) << attribute.key();
    map[attribute.key()] = value.has_int_value() ? std::to_string(value.int_value())
                                                 : value.string_value();
  }
  return map;
}

NodeSnapshot Example() {
  NodeSnapshot node;
  node.boot_ns = 5'000'000'000;
  GpuSnapshot& gpu = node.gpus["GPU-1"];
  gpu.gpu.architecture = "gfx90a";
  gpu.vram_bytes = 64'000;
  gpu.vram_used_bytes = 0;
  gpu.busy_percent = 25;
  gpu.serial = "692234001234";
  gpu.driver = "6.12.12";
  node.gpus["GPU-2"].gpu.architecture = "gfx90a";  // memory size not known
  gpu.totals.operations = {3, 6'000'000};
  gpu.totals.durations.Add(1'000'000);
  gpu.totals.durations.Add(4'000'000);
  gpu.totals.durations.Add(100'000'000'000);  // beyond all bounds
  ProcessSnapshot process;
  process.pid = 7;
  process.start_ns = 2'000'000'000;
  process.start_wall_ns = 1'002'000'000'000;
  process.comm = "train";
  process.uid = 1000;
  process.workload.pod = "trainer-0";
  process.workload.kube_namespace = "ml";
  process.workload.slurm_job = "12";
  process.workload.container_id = "abc";
  process.gpus["GPU-1"] = {3, 6'000'000};
  process.copies[2] = {1, 4096, 1000};
  process.kernels.push_back({0xabc, "_Z5ScalePffi", {2, 5'000'000}});
  node.processes.push_back(process);
  process.pid = 8;
  process.workload = {};
  node.processes.push_back(process);
  // Uses a GPU and is not attached.
  ProcessUseSnapshot use;
  use.id = {9, 2'000'000'000 / ClockTickNs()};
  use.comm = "other";
  use.uid = 1001;
  use.workload.executable = "/opt/other";
  use.workload.pod_uid = "uid-9";
  use.workload.node = "node7";
  use.gpus["GPU-1"].drm_vram_bytes = 77;
  node.uses.push_back(use);
  return node;
}

OtlpService Service() {
  OtlpService service;
  service.host = {{"host.name", "node7"}};
  service.service = {{"service.name", "rocattach-watch"}};
  service.start_ns = 1'000'000'000;
  service.start_wall_ns = 1'001'000'000'000;
  return service;
}

// Five seconds after the boot, which is also the time of the snapshot.
ClockSnapshot Clock(int64_t step_ns = 0) {
  ClockSnapshot clock;
  clock.boottime_ns = 5'000'000'000;
  clock.realtime_ns = 1'005'000'000'000 + static_cast<uint64_t>(step_ns);
  return clock;
}

class OtlpMetricsTest : public testing::Test {
 protected:
  OtlpMetricsTest()
      : request_(OtlpMetrics(Example(), {}, Service(), Clock(), &demangler_)) {}

  const otlp::ResourceMetrics* Resource(const std::string& pid) {
    for (const auto& resource : request_.resource_metrics()) {
      const Attributes attributes = ToMap(resource.resource().attributes());
      const auto found = attributes.find("process.pid");
      if ((found == attributes.end() ? "" : found->second) == pid) return &resource;
    }
    return nullptr;
  }
  const otlp::Metric* Find(const std::string& pid, const std::string& name) {
    const otlp::ResourceMetrics* resource = Resource(pid);
    if (resource == nullptr) return nullptr;
    const otlp::Metric* found = nullptr;
    for (const otlp::Metric& metric : resource->scope_metrics(0).metrics()) {
      if (metric.name() != name) continue;
      EXPECT_EQ(found, nullptr) << name << " is there twice";
      found = &metric;
    }
    return found;
  }

  Demangler demangler_;
  otlp::ExportMetricsServiceRequest request_;
};

TEST_F(OtlpMetricsTest, EachProcessIsAResource) {
  ASSERT_EQ(request_.resource_metrics_size(), 4);
  EXPECT_EQ(ToMap(Resource("")->resource().attributes()),
            (Attributes{{"host.name", "node7"}, {"service.name", "rocattach-watch"}}));
  ASSERT_NE(Resource("7"), nullptr);
  EXPECT_EQ(ToMap(Resource("7")->resource().attributes()),
            (Attributes{{"host.name", "node7"},
                        {"process.pid", "7"},
                        {"process.executable.name", "train"},
                        {"process.user.id", "1000"},
                        {"process.creation.time", "1970-01-01T00:16:42.000Z"},
                        {"k8s.namespace.name", "ml"},
                        {"k8s.pod.name", "trainer-0"},
                        {"container.id", "abc"},
                        {"slurm.job.id", "12"}}));
  ASSERT_NE(Resource("9"), nullptr);
  EXPECT_EQ(ToMap(Resource("9")->resource().attributes()),
            (Attributes{{"host.name", "node7"},
                        {"process.pid", "9"},
                        {"process.executable.name", "other"},
                        {"process.executable.path", "/opt/other"},
                        {"process.user.id", "1001"},
                        {"process.creation.time", "1970-01-01T00:16:42.000Z"},
                        {"k8s.pod.uid", "uid-9"},
                        {"k8s.node.name", "node7"}}));
  EXPECT_EQ(Find("9", "rocattach_process_info"), nullptr) << "its attributes say that";
  EXPECT_NE(Find("9", "rocattach_process_gpu_memory_bytes"), nullptr);
}

TEST_F(OtlpMetricsTest, CountersAreCumulativeSums) {
  const otlp::Metric* time = Find("7", "rocattach_target_gpu_time_seconds");
  ASSERT_NE(time, nullptr);
  EXPECT_EQ(time->unit(), "s");
  EXPECT_TRUE(time->sum().is_monotonic());
  EXPECT_EQ(time->sum().aggregation_temporality(),
            otlp::AGGREGATION_TEMPORALITY_CUMULATIVE);
  ASSERT_EQ(time->sum().data_points_size(), 1);
  const otlp::NumberDataPoint& point = time->sum().data_points(0);
  EXPECT_DOUBLE_EQ(point.as_double(), 0.006);
  // The process began after the service.
  EXPECT_EQ(point.start_time_unix_nano(), 1'002'000'000'000u);
  EXPECT_EQ(point.time_unix_nano(), 1'005'000'000'000u);
  EXPECT_EQ(ToMap(point.attributes()), (Attributes{{"gpu", "GPU-1"}}));
  ASSERT_NE(Find("7", "rocattach_target_memcpy"), nullptr);
  EXPECT_EQ(Find("7", "rocattach_target_memcpy")->unit(), "");
  ASSERT_NE(Find("7", "rocattach_target_memcpy_bytes"), nullptr);
  EXPECT_EQ(Find("7", "rocattach_target_memcpy_bytes")->unit(), "By");
}

TEST_F(OtlpMetricsTest, KernelsHaveTheirNames) {
  const otlp::Metric* metric = Find("8", "rocattach_kernel_dispatches");
  ASSERT_NE(metric, nullptr);
  ASSERT_EQ(metric->sum().data_points_size(), 1);
  EXPECT_EQ(ToMap(metric->sum().data_points(0).attributes()),
            (Attributes{{"kernel", "0000000000000abc"},
                        {"kernel_name", "Scale(float*, float, int)"}}));
}

TEST_F(OtlpMetricsTest, HistogramsCountEachValueOnce) {
  const otlp::Metric* metric = Find("", "rocattach_dispatch_duration_seconds");
  ASSERT_NE(metric, nullptr);
  ASSERT_EQ(metric->histogram().data_points_size(), 2);  // by GPU
  const otlp::HistogramDataPoint& point = metric->histogram().data_points(0);
  EXPECT_EQ(point.count(), 3u);
  EXPECT_DOUBLE_EQ(point.sum(), 100.005);
  ASSERT_EQ(point.bucket_counts_size(), point.explicit_bounds_size() + 1);
  uint64_t total = 0;
  for (uint64_t count : point.bucket_counts()) total += count;
  EXPECT_EQ(total, 3u);
  EXPECT_EQ(point.bucket_counts(point.bucket_counts_size() - 1), 1u);
}

TEST_F(OtlpMetricsTest, DevicesHaveTheirConventionalNames) {
  for (const auto& [name, bytes] : {std::pair("hw.gpu.memory.limit", 64'000),
                                    std::pair("hw.gpu.memory.usage", 0)}) {
    const otlp::Metric* metric = Find("", name);
    ASSERT_NE(metric, nullptr) << name;
    EXPECT_FALSE(metric->sum().is_monotonic());
    ASSERT_EQ(metric->sum().data_points_size(), 1);
    EXPECT_EQ(metric->sum().data_points(0).as_int(), bytes);
    EXPECT_EQ(ToMap(metric->sum().data_points(0).attributes()),
              (Attributes{{"hw.id", "GPU-1"},
                          {"hw.model", "gfx90a"},
                          {"hw.vendor", "AMD"},
                          {"hw.serial_number", "692234001234"},
                          {"hw.driver_version", "6.12.12"}}));
  }
  const otlp::Metric* busy = Find("", "hw.gpu.utilization");
  ASSERT_NE(busy, nullptr);
  EXPECT_EQ(busy->unit(), "1");
  ASSERT_EQ(busy->gauge().data_points_size(), 1) << "of one it is not known";
  EXPECT_EQ(busy->gauge().data_points(0).as_double(), 0.25);
  const Attributes attributes = ToMap(busy->gauge().data_points(0).attributes());
  EXPECT_EQ(attributes.at("hw.id"), "GPU-1");
  EXPECT_EQ(attributes.at("hw.gpu.task"), "general");
}

// Start and time of the first sum of a resource.
std::pair<uint64_t, uint64_t> SpanOf(const otlp::ExportMetricsServiceRequest& request,
                                     const std::string& pid) {
  for (const auto& resource : request.resource_metrics()) {
    const Attributes attributes = ToMap(resource.resource().attributes());
    if ((attributes.contains("process.pid") ? attributes.at("process.pid") : "") !=
        pid) {
      continue;
    }
    for (const otlp::Metric& metric : resource.scope_metrics(0).metrics()) {
      if (!metric.has_sum() || metric.sum().data_points_size() == 0) continue;
      const otlp::NumberDataPoint& point = metric.sum().data_points(0);
      return {point.start_time_unix_nano(), point.time_unix_nano()};
    }
  }
  return {0, 0};
}

// The wall clock is set while the service runs, by NTP for example.
TEST_F(OtlpMetricsTest, AClockThatIsSetChangesTimesButNoStart) {
  constexpr uint64_t kService = 1'001'000'000'000, kProcess = 1'002'000'000'000,
                     kNow = 1'005'000'000'000;
  using Span = std::pair<uint64_t, uint64_t>;
  const auto request = [&](int64_t step_ns) {
    return OtlpMetrics(Example(), {}, Service(), Clock(step_ns), &demangler_);
  };
  for (const int64_t step : {int64_t{0}, int64_t{1'700'000'000'000'000'000},
                             int64_t{3'600'000'000'000}, int64_t{-2'000'000'000}}) {
    const auto now = kNow + static_cast<uint64_t>(step);
    EXPECT_EQ(SpanOf(request(step), ""), Span(kService, now)) << step;
    EXPECT_EQ(SpanOf(request(step), "7"), Span(kProcess, now)) << step;
  }
  // Set back to before the process, and to before the service: no sum ends before it
  // begins.
  EXPECT_EQ(SpanOf(request(-3'500'000'000), "7"),
            Span(kNow - 3'500'000'000, kNow - 3'500'000'000));
  EXPECT_EQ(SpanOf(request(-3'500'000'000), "").first, kService);
  const uint64_t hour = 900'000'000'000;
  EXPECT_EQ(SpanOf(request(-static_cast<int64_t>(hour)), ""),
            Span(kNow - hour, kNow - hour));
}

// Process 7 started after the service, process 8 before it. Their wall-clock starts say
// the opposite, because the clock was set back in between: only process 7 uses its own.
TEST_F(OtlpMetricsTest, ChoiceOfStartTimeIgnoresTheWallClock) {
  NodeSnapshot node = Example();
  node.processes[0].start_wall_ns = 500'000'000'000;
  node.processes[1].start_ns = 900'000'000;  // before the service
  node.processes[1].start_wall_ns = 1'003'000'000'000;
  const auto request = OtlpMetrics(node, {}, Service(), Clock(), &demangler_);
  EXPECT_EQ(SpanOf(request, "7").first, 500'000'000'000u);
  EXPECT_EQ(SpanOf(request, "8").first, 1'001'000'000'000u);
}

TEST_F(OtlpMetricsTest, TheServicesOwnMetricsHaveTheirConventionalNames) {
  EXPECT_NE(Find("", "process.cpu.time"), nullptr);
  ASSERT_NE(Find("", "process.memory.usage"), nullptr);
  EXPECT_EQ(Find("", "process.memory.usage")->unit(), "By");
  EXPECT_EQ(Find("", "rocattach_build_info"), nullptr);
  EXPECT_EQ(Find("7", "rocattach_target_info"), nullptr);
}

TEST(OtlpService, AttributesReplaceThoseOfTheMachine) {
  const OtlpService service = DescribeOtlpService(
      {{"service.name", "gpus"}, {"host.name", "renamed"}}, CaptureClockSnapshot());
  int names = 0;
  for (const auto& [key, value] : service.service) {
    if (key != "service.name") continue;
    ++names;
    EXPECT_EQ(value, "gpus");
  }
  EXPECT_EQ(names, 1);
  for (const auto& [key, value] : service.host) {
    if (key == "host.name") {
      EXPECT_EQ(value, "renamed");
    }
  }
}

}  // namespace
}  // namespace rocattach
