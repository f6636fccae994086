// A real Prometheus scrapes the service: its queries return what the programs have
// counted themselves, and the series of a killed service end.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/metrics_fixture.h"
#include "tests/integration/watch/terminal.h"
#include "tests/temporary_directory.h"
#include "tests/unit/gpus/fake_driver.h"
#include "tests/unit/telemetry/http_client.h"

namespace rocattach::testing_support {
namespace {

using Json = nlohmann::json;

TEST_F(MetricsTest, QueriesReturnTheCountsOfThePrograms) {
  const std::vector<std::string> command =
      OnSimgpu({"hsa_dispatch", "-n", "300", "--copies", "6", "--rounds", "3",
                "--sleep-msec", "500"});
  const Child::Options times = {.environment = {"SIMGPU_KERNEL_NS=20000"}};
  Child native_child(command, times);
  const Finished native = native_child.Wait();
  WatcherProcess watcher({"--auto", "--metrics-listen", "0"});
  ASSERT_TRUE(watcher.ready());
  const std::string address = AddressOf(&watcher);
  ASSERT_NE(address, "");
  const ListenAddress service = *ParseListenAddress(address);
  EXPECT_EQ(Body(Get(service, "/readyz")), "ok\n");
  Prometheus prometheus(address);
  ASSERT_TRUE(Eventually([&] { return prometheus.Query("up") == 1; }));

  std::vector<std::unique_ptr<Child>> targets;
  for (int i = 0; i < 2; ++i)
    targets.push_back(std::make_unique<Child>(command, times));
  double dispatches = 0, bytes = 0;
  for (const auto& target : targets) {
    const Finished result = target->Wait();
    EXPECT_EQ(result.status, native.status);
    EXPECT_EQ(result.errors, native.errors);
    dispatches += static_cast<double>(Reported(result.output, "dispatches"));
    bytes += static_cast<double>(Reported(result.output, "bytes"));
  }
  EXPECT_EQ(dispatches,
            2.0 * static_cast<double>(Reported(native.output, "dispatches")));
  // The highest value of each series that was ever scraped.
  const auto sum = [&](const std::string& metric) {
    return prometheus.Query("sum(max_over_time(" + metric + "[10m]))");
  };
  EXPECT_TRUE(Eventually([&] {
    return sum("rocattach_target_dispatches_total") == dispatches;
  })) << sum("rocattach_target_dispatches_total")
      << " instead of " << dispatches;
  EXPECT_EQ(sum("rocattach_target_memcpy_bytes_total"), bytes);
  EXPECT_EQ(sum("rocattach_kernel_dispatches_total"), dispatches);
  EXPECT_EQ(sum("rocattach_gpu_dispatches_total"), dispatches);
  EXPECT_EQ(sum("rocattach_dispatch_duration_seconds_count"), dispatches);
  EXPECT_EQ(sum("rocattach_records_dropped_total"), 0);
  EXPECT_EQ(sum("rocattach_attach_total{result=\"attached\"}"), 2);
  EXPECT_EQ(sum("rocattach_hold_duration_seconds_count"), 2);
  // Every kernel lasts 20 us on the simulated GPU, whose clock is accurate to 2 %.
  const double seconds = dispatches * 20e-6;
  EXPECT_NEAR(sum("rocattach_target_gpu_time_seconds_total"), seconds, 0.02 * seconds);
  EXPECT_NEAR(sum("rocattach_gpu_time_seconds_total"), seconds, 0.02 * seconds);
  // Kernels can be selected by name.
  EXPECT_EQ(prometheus.Query(
                "sum(max_over_time(rocattach_kernel_dispatches_total[10m]) * "
                "on(kernel) group_left(name) "
                "max_over_time(rocattach_kernel_info{name=\"increment\"}[10m]))"),
            2.0 * static_cast<double>(Reported(native.output, "increment")));
  // Series end with their processes.
  EXPECT_TRUE(Eventually([&] {
    return std::isnan(prometheus.Query("sum(rocattach_target_dispatches_total)"));
  }));
  EXPECT_EQ(prometheus.Query("sum(rocattach_targets)"), 0);
  EXPECT_GT(sum("rocattach_ring_fill_ratio_max"), 0);
  EXPECT_LE(sum("rocattach_ring_fill_ratio_max"), 1);
  EXPECT_GT(sum("rocattach_overhead_seconds_total"), 0);
  EXPECT_LT(sum("rocattach_overhead_seconds_total"), 10);

  // And with the service.
  watcher.Kill();
  EXPECT_TRUE(Eventually([&] {
    return prometheus.Query("up") == 0 &&
           std::isnan(prometheus.Query("sum(rocattach_gpu_dispatches_total)"));
  }));
}

// A Prometheus that requests native histograms gets them, and computes the same from
// them as from the classic buckets.
TEST_F(MetricsTest, NativeHistogramsAgreeWithClassicBuckets) {
  const Child::Options times = {.environment = {"SIMGPU_KERNEL_NS=20000"}};
  WatcherProcess watcher({"--auto", "--metrics-listen", "0"});
  ASSERT_TRUE(watcher.ready());
  const std::string address = AddressOf(&watcher);
  ASSERT_NE(address, "");
  Prometheus native(address, {"--enable-feature=native-histograms"});
  Prometheus classic(address);
  ASSERT_TRUE(
      Eventually([&] { return native.Query("up") == 1 && classic.Query("up") == 1; }));
  const Finished target = Child(OnSimgpu({"hsa_dispatch", "-n", "300"}), times).Wait();
  EXPECT_TRUE(target.exited_with(0)) << target.errors;
  const auto dispatches = static_cast<double>(Reported(target.output, "dispatches"));
  EXPECT_TRUE(Eventually([&] {
    return native.Query("histogram_count(sum(rocattach_dispatch_duration_seconds))") ==
               dispatches &&
           classic.Query("sum(rocattach_dispatch_duration_seconds_count)") ==
               dispatches;
  })) << native.Query("histogram_count(sum(rocattach_dispatch_duration_seconds))");
  EXPECT_EQ(native.Query("histogram_count(rocattach_hold_duration_seconds)"), 1);
  const double seconds =
      native.Query("histogram_sum(sum(rocattach_dispatch_duration_seconds))");
  // The text has 16 digits, and Prometheus adds series in no fixed order: the last
  // digit may differ.
  EXPECT_DOUBLE_EQ(classic.Query("sum(rocattach_dispatch_duration_seconds_sum)"),
                   seconds);
  // A kernel takes 20 us: 2^-16 s < 20 us <= 2^-15 s, and the classic bucket is twice
  // as wide.
  for (const double quantile : {0.1, 0.5, 0.9}) {
    const double exact =
        native.Query(absl::StrCat("histogram_quantile(", quantile,
                                  ", sum(rocattach_dispatch_duration_seconds))"));
    const double wide = classic.Query(
        absl::StrCat("histogram_quantile(", quantile,
                     ", sum by (le) (rocattach_dispatch_duration_seconds_bucket))"));
    EXPECT_GT(exact, std::ldexp(1, -16)) << quantile;
    EXPECT_LE(exact, std::ldexp(1, -15)) << quantile;
    EXPECT_GE(wide, std::ldexp(1, -16)) << quantile;
    EXPECT_LE(wide, std::ldexp(1, -14)) << quantile;
    EXPECT_LT(std::abs(std::log2(wide / exact)), 2) << quantile;
  }
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

TEST_F(MetricsTest, PromtoolAcceptsTheMetrics) {
  WatcherProcess watcher({"--auto", "--metrics-listen", "0"});
  ASSERT_TRUE(watcher.ready());
  const ListenAddress service = *ParseListenAddress(AddressOf(&watcher));
  Child target(OnSimgpu({"hsa_dispatch", "-n", "50", "--copies", "4"}));
  EXPECT_TRUE(target.Wait().exited_with(0));
  ASSERT_TRUE(Eventually([&] {
    return Body(Get(service, "/metrics")).find("rocattach_kernel_info") !=
           std::string::npos;
  }));
  const TemporaryDirectory directory;
  std::ofstream(directory / "metrics") << Body(Get(service, "/metrics"));
  EXPECT_EQ(
      system(absl::StrCat("promtool check metrics <", directory.path(), "/metrics >&2")
                 .c_str()),
      0);
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

TEST_F(MetricsTest, CountersAreThoseOfTheRecording) {
  WatcherProcess watcher(Watch({"--pmc", "SQ_WAVES", "--metrics-listen", "0"}));
  ASSERT_TRUE(watcher.ready());
  const ListenAddress service = *ParseListenAddress(AddressOf(&watcher));
  Child target(OnSimrocm(
      {}, {"hsa_dispatch", "-n", "100", "--rounds", "2", "--sleep-msec", "700"}));
  const pid_t pid = target.pid();
  // The value of the metric's only series; 0 if there is none.
  const auto value = [&](const std::string& metric) {
    const std::string page = Body(Get(service, "/metrics"));
    const size_t line = page.find("\n" + metric + "{");
    if (line == std::string::npos) return 0.0;
    return std::stod(page.substr(page.find("} ", line) + 2));
  };
  EXPECT_TRUE(Eventually([&] {
    return Body(Get(service, "/metrics")).find("owner=\"daemon\"} 1") !=
           std::string::npos;
  }));
  // The target ends meanwhile, and its series are served for two more seconds.
  double sum = 0;
  EXPECT_TRUE(Eventually([&] {
    sum = value("rocattach_target_pmc_total");
    return value("rocattach_target_pmc_dispatches_total") == 200;
  }));
  sum = std::max(sum, value("rocattach_target_pmc_total"));
  EXPECT_TRUE(target.Wait().exited_with(0));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  double recorded = 0;
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  for (const CounterRecord& counter : process.counters) recorded += counter.sum;
  EXPECT_EQ(process.counters.size(), 200u);
  EXPECT_GT(recorded, 0);
  EXPECT_EQ(sum, recorded);
}

// Counters with a low duty cycle: here for one second out of two, and not while a
// user's session has them.
TEST_F(MetricsTest, CountersOfWholeGpusYieldToSessions) {
  WatcherProcess watcher(
      Watch({"--metrics-counters", "SQ_WAVES,GRBM_COUNT", "--metrics-counters-interval",
             "2", "--backend", "sdk", "--socket", Socket(), "--metrics-listen", "0"}));
  ASSERT_TRUE(watcher.ready());
  const ListenAddress service = *ParseListenAddress(AddressOf(&watcher));
  Child target(OnSimrocm(
      {}, {"hsa_dispatch", "-n", "20", "--rounds", "100000", "--sleep-msec", "20"}));
  const auto has = [&](const std::string& text) {
    return Body(Get(service, "/metrics")).find(text) != std::string::npos;
  };
  const auto value = [&](const std::string& metric, const std::string& counter) {
    const std::string page = Body(Get(service, "/metrics"));
    for (size_t at = page.find("\n" + metric + "{"); at != std::string::npos;
         at = page.find("\n" + metric + "{", at + 1)) {
      const std::string line = page.substr(at + 1, page.find('\n', at + 1) - at - 1);
      if (line.find("counter=\"" + counter + "\"") == std::string::npos) continue;
      return std::stod(line.substr(line.find("} ") + 2));
    }
    return 0.0;
  };
  EXPECT_TRUE(Eventually([&] {
    return value("rocattach_gpu_pmc_total", "SQ_WAVES") > 0 &&
           value("rocattach_gpu_pmc_seconds_total", "GRBM_COUNT") > 0.5;
  })) << Body(Get(service, "/metrics"));
  EXPECT_TRUE(Eventually([&] { return has("owner=\"daemon\"} 1"); }));
  EXPECT_TRUE(Eventually([&] { return has("owner=\"none\"} 1"); }));
  // A session has the counters as soon as it starts, whatever is being counted.
  const Finished started = Child({ClientPath(), "session", "start", "--socket",
                                  Socket(), "--pmc", "SQ_WAVES"})
                               .Wait();
  EXPECT_TRUE(started.exited_with(0)) << started.errors;
  EXPECT_TRUE(Eventually([&] { return has("owner=\"user\"} 1"); }));
  EXPECT_TRUE(Eventually([&] { return has("rocattach_target_pmc_total{"); }));
  EXPECT_FALSE(has("owner=\"daemon\"} 1"));
  EXPECT_TRUE(watcher.Events("session_refused").empty());
  target.Signal(SIGKILL);
  (void)target.Wait();
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process =
      ReadRecording(watcher.recording()).Process(target.pid());
  EXPECT_FALSE(process.samples.empty());
  EXPECT_FALSE(process.counters.empty());
}

TEST_F(MetricsTest, TopShowsRunningProcesses) {
  WatcherProcess watcher({"--auto", "--metrics-listen", "0"});
  ASSERT_TRUE(watcher.ready());
  const std::string address = AddressOf(&watcher);
  const std::vector<std::string> top = {ClientPath(),      "top", "--connect", address,
                                        "--interval-msec", "400"};
  // The target runs until it is killed.
  Child target(OnSimgpu(
      {"hsa_dispatch", "-n", "100", "--rounds", "1000000", "--sleep-msec", "20"}));
  Json process;
  EXPECT_TRUE(Eventually([&] {
    std::vector<std::string> once = top;
    once.insert(once.end(), {"--once", "--json"});
    const Json view = Json::parse(Child(once).Wait().output, nullptr, false);
    if (!view.is_object() || view["processes"].size() != 1) return false;
    process = view["processes"][0];
    return process["dispatches_per_second"] > 0;
  }));
  ASSERT_TRUE(process.is_object());
  EXPECT_EQ(process["pid"], target.pid());
  EXPECT_EQ(process["name"], "hsa_dispatch");
  EXPECT_FALSE(process["kernels"].empty());

  Terminal live(top);
  EXPECT_NE(live.ReadUntil("hsa_dispatch").find("hsa_dispatch"), std::string::npos);
  live.Type("p");
  EXPECT_NE(live.ReadUntil("PAUSED").find("PAUSED"), std::string::npos);
  live.Type("/nobody\n");
  EXPECT_NE(live.ReadUntil("0 processes").find("0 processes"), std::string::npos);
  live.Type("q");
  EXPECT_EQ(live.Wait(), 0);
  // The previous screen is restored.
  EXPECT_NE(live.seen().rfind("\033[?1049l"), std::string::npos);

  target.Signal(SIGKILL);
  (void)target.Wait();
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Finished gone =
      Child({ClientPath(), "top", "--connect", address, "--once"}).Wait();
  EXPECT_TRUE(gone.exited_with(3));
  EXPECT_NE(gone.errors.find("--metrics-listen"), std::string::npos) << gone.errors;
}

TEST_F(MetricsTest, APortInUseStopsTheStart) {
  WatcherProcess first({"--auto", "--metrics-listen", "0"});
  ASSERT_TRUE(first.ready());
  const std::string address = AddressOf(&first);
  const TemporaryDirectory directory;
  Child second({WatcherPath(), "--auto", "--hold-timeout-msec", "10000", "--collector",
                CollectorPath(), "-d", directory.path(), "-o", "run",
                "--metrics-listen", address});
  const Finished result = second.Wait();
  EXPECT_TRUE(result.exited_with(3));
  EXPECT_NE(result.errors.find("cannot listen at " + address), std::string::npos)
      << result.errors;
  EXPECT_TRUE(first.Stop().exited_with(0));
}

// The process is not attached to: only the driver's data about it is known.
TEST_F(MetricsTest, MemoryOfProcessesThatAreNotAttached) {
  const FakeDriver driver;
  driver.AddGpu(1, 100, 3, 0xa);
  driver.Write("kfd/topology/generation_id", "1\n");
  Child child({"sleep", "1000"}, {.dies_with_us = true});
  driver.Write(absl::StrCat("kfd/proc/", child.pid(), "/vram_100"), "1048576\n");
  driver.Write(absl::StrCat("kfd/proc/", child.pid(), "/sdma_100"), "2500000\n");
  WatcherProcess watcher({"--auto", "--metrics-listen", "0", "--kfd-topology",
                          driver.roots().kfd + "/topology"});
  ASSERT_TRUE(watcher.ready());
  const ListenAddress service = *ParseListenAddress(AddressOf(&watcher));
  const std::string labels = absl::StrCat(
      "{pid=\"", child.pid(), "\",comm=\"sleep\",gpu=\"GPU-000000000000000a\"} ");
  const auto has = [&](const std::string& line) {
    return Eventually(
        [&] { return Body(Get(service, "/metrics")).find(line) != std::string::npos; });
  };
  EXPECT_TRUE(has("rocattach_process_gpu_memory_bytes" + labels + "1048576\n"))
      << Body(Get(service, "/metrics"));
  EXPECT_TRUE(has("rocattach_process_sdma_seconds_total" + labels + "2.5\n"));
  EXPECT_TRUE(
      has("rocattach_gpu_vram_size_bytes{gpu=\"GPU-000000000000000a\"} 1000\n"));
  const Json page = Json::parse(Body(Get(service, "/processes")), nullptr, false);
  ASSERT_EQ(page["processes"].size(), 1u) << page;
  EXPECT_EQ(page["processes"][0]["use"][0]["vram_bytes"], 1048576);
  child.Signal(SIGKILL);
  (void)child.Wait();
  EXPECT_TRUE(Eventually([&] {
    return Body(Get(service, "/metrics")).find("rocattach_process_gpu_memory_bytes{") ==
           std::string::npos;
  })) << "series end with their process";
}

}  // namespace
}  // namespace rocattach::testing_support
