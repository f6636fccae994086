// A real Prometheus scrapes the service: what its queries return is what the programs
// have counted themselves, and the series of a service that was killed end.
#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/sessions_fixture.h"
#include "tests/integration/watch/terminal.h"
#include "tests/temporary_directory.h"
#include "tests/unit/attribution/fake_kubelet.h"
#include "tests/unit/attribution/fake_pod_logs.h"
#include "tests/unit/gpus/fake_driver.h"
#include "tests/unit/telemetry/http_client.h"

namespace rocattach::testing_support {
namespace {

using Json = nlohmann::json;

std::string Body(const std::string& page) {
  const size_t head = page.find("\r\n\r\n");
  return head == std::string::npos ? "" : page.substr(head + 4);
}

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    absl::StrAppendFormat(&escaped, "%%%02x", static_cast<uint8_t>(c));
  }
  return escaped;
}

// A port that nobody uses just now.
ListenAddress FreePort() {
  ListenAddress address = *ParseListenAddress("127.0.0.1:0");
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  auto* raw = reinterpret_cast<sockaddr*>(&address.address);
  EXPECT_EQ(bind(fd.get(), raw, address.size), 0);
  EXPECT_EQ(getsockname(fd.get(), raw, &address.size), 0);
  return address;
}

class Prometheus {
 public:
  // `more`: further arguments.
  explicit Prometheus(const std::string& target, std::vector<std::string> more = {})
      : address_(FreePort()) {
    std::ofstream(directory_ / "prometheus.yml")
        << "global: {scrape_interval: 300ms, scrape_timeout: 300ms}\n"
           "scrape_configs:\n- job_name: gpu\n  static_configs:\n  - targets: ['"
        << target << "']\n";
    Child::Options options;
    options.dies_with_us = true;
    std::vector<std::string> command = {
        "prometheus", "--config.file=" + (directory_ / "prometheus.yml"),
        "--storage.tsdb.path=" + (directory_ / "data"),
        "--web.listen-address=" + address_.text()};
    command.insert(command.end(), more.begin(), more.end());
    child_ = std::make_unique<Child>(command, options);
  }
  ~Prometheus() {
    child_->Signal(SIGKILL);
    (void)child_->Wait();
  }

  // The value of a query with one result; NaN if it has none.
  double Query(const std::string& query) {
    const Json json = Json::parse(
        Body(Get(address_, "/api/v1/query?query=" + Escaped(query))), nullptr, false);
    if (!json.is_object() || json["status"] != "success") return NAN;
    const Json& result = json["data"]["result"];
    if (result.empty()) return NAN;
    return std::stod(result[0]["value"][1].get<std::string>());
  }

 private:
  const TemporaryDirectory directory_;
  const ListenAddress address_;
  std::unique_ptr<Child> child_;
};

class MetricsTest : public SessionsTest {
 protected:
  void SetUp() override {
    SessionsTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (system("command -v prometheus >/dev/null") == 0) return;
    if (getenv("CI") != nullptr) FAIL() << "no prometheus";
    GTEST_SKIP() << "no prometheus; scripts/setup installs it";
  }

  // Where the service serves its metrics.
  static std::string AddressOf(WatcherProcess* watcher) {
    const auto events = watcher->Events("ready");
    return events.empty() ? "" : events[0].value("metrics", "");
  }
};

TEST_F(MetricsTest, QueriesReturnWhatProgramsHaveCounted) {
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
  // Every kernel lasts 20 us on the simulated GPU, and 2 % is how exact its clock is.
  const double seconds = dispatches * 20e-6;
  EXPECT_NEAR(sum("rocattach_target_gpu_time_seconds_total"), seconds, 0.02 * seconds);
  EXPECT_NEAR(sum("rocattach_gpu_time_seconds_total"), seconds, 0.02 * seconds);
  // Kernels are found by their names.
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

// A Prometheus that asks for native histograms gets them, and computes from them what
// the classic buckets say.
TEST_F(MetricsTest, NativeHistogramsAreThoseOfTheClassicBuckets) {
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
  EXPECT_EQ(classic.Query("sum(rocattach_dispatch_duration_seconds_sum)"), seconds);
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

TEST_F(MetricsTest, WhatIsServedIsCheckedByPromtool) {
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

// A group with the name that the kubelet and containerd would give it, below this
// test's own.
class PodGroup {
 public:
  explicit PodGroup(std::string uid = kUid, char digit = 'a')
      : uid_(std::move(uid)), id_(64, digit) {
    const char* own = getenv("ROCATTACH_CGROUP");
    if (own == nullptr) return;
    std::string path = own;
    valid_ = true;
    for (const std::string& name : {std::string("kubepods"), "pod" + uid_, id_}) {
      path += "/" + name;
      if (mkdir(path.c_str(), 0755) == 0) {
        made_.push_back(path);
      } else if (errno != EEXIST) {
        valid_ = false;
      }
    }
    group_ = path;
  }
  ~PodGroup() {
    for (auto path = made_.rbegin(); path != made_.rend(); ++path) rmdir(path->c_str());
  }

  bool valid() const { return valid_; }
  const std::string& uid() const { return uid_; }
  const std::string& id() const { return id_; }
  // Runs a command in the group.
  std::vector<std::string> Within(const std::vector<std::string>& command) const {
    std::vector<std::string> words = {
        "sh", "-c", "echo 0 >\"$0\"/cgroup.procs && exec \"$@\"", group_};
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }

  static constexpr char kUid[] = "0f3c1a2b-1234-4abc-9def-00112233aabb";

 private:
  const std::string uid_, id_;
  bool valid_ = false;
  std::string group_;
  std::vector<std::string> made_;
};

constexpr char kOtherUid[] = "1f3c1a2b-1234-4abc-9def-00112233aabb";

TEST_F(MetricsTest, ProcessesAreAttributedToTheirPodContainerAndJob) {
  const PodGroup group;
  if (!group.valid()) GTEST_SKIP() << "no control groups of the unified hierarchy";
  const std::vector<std::string> command =
      group.Within(OnSimgpu({"hsa_dispatch", "-n", "20"}));
  const Child::Options job = {.environment = {"SLURM_JOB_ID=77", "SLURM_STEP_ID=2"}};
  const Finished native = Child(command, job).Wait();
  EXPECT_TRUE(native.exited_with(0)) << native.errors;
  WatcherProcess watcher({"--auto", "--metrics-listen", "0"});
  ASSERT_TRUE(watcher.ready());
  const ListenAddress service = *ParseListenAddress(AddressOf(&watcher));
  Child target(command, job);
  const Finished result = target.Wait();
  EXPECT_EQ(result.status, native.status);
  EXPECT_EQ(result.errors, native.errors);
  std::string info;
  EXPECT_TRUE(Eventually([&] {
    const std::string page = Body(Get(service, "/metrics"));
    const size_t begin = page.find("\nrocattach_target_info{");
    if (begin == std::string::npos) return false;
    info = page.substr(begin + 1, page.find('\n', begin + 1) - begin - 1);
    return info.find("container_id=") != std::string::npos;
  })) << info;
  for (const std::string& label :
       {absl::StrCat("pod_uid=\"", group.uid(), "\""),
        absl::StrCat("container_id=\"", group.id(), "\""), std::string("job_id=\"77\""),
        std::string("job_step=\"2\"")}) {
    EXPECT_NE(info.find(label), std::string::npos) << label << " in " << info;
  }
  EXPECT_NE(info.find("/hsa_dispatch\""), std::string::npos) << info;
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

// One GPU that eight processes of two pods share, without a device request: what each
// pod did is what its programs have counted, and the sum is that of the GPU.
TEST_F(MetricsTest, TheQueryPerPodIsTheTruthOnASharedGpu) {
  const PodGroup first(PodGroup::kUid, 'a'), second(kOtherUid, 'b');
  if (!first.valid() || !second.valid()) {
    GTEST_SKIP() << "no control groups of the unified hierarchy";
  }
  const FakePodLogs logs;
  logs.AddPod("ml", "trainer-0", first.uid(), {"init", "main"});
  logs.AddContainer("trainer-0", "ml", "main", first.id());
  logs.AddPod("ml", "server-1", second.uid(), {"serve"});
  WatcherProcess watcher({"--auto", "--metrics-listen", "0", "--pod-logs", logs.path(),
                          "--pod-resources", logs.path() + "/no-socket", "--node-name",
                          "node-7"});
  ASSERT_TRUE(watcher.ready());
  const std::string address = AddressOf(&watcher);
  Prometheus prometheus(address);
  ASSERT_TRUE(Eventually([&] { return prometheus.Query("up") == 1; }));
  const std::vector<std::string> command =
      OnSimgpu({"hsa_dispatch", "-n", "100", "--rounds", "3", "--sleep-msec", "700"});
  std::map<const PodGroup*, std::vector<std::unique_ptr<Child>>> children;
  for (int i = 0; i < 4; ++i) {
    for (const PodGroup* pod : {&first, &second}) {
      children[pod].push_back(std::make_unique<Child>(
          pod->Within(command),
          Child::Options{.environment = {"SIMGPU_KERNEL_NS=20000"}}));
    }
  }
  std::map<const PodGroup*, double> dispatches;
  for (auto& [pod, of_pod] : children) {
    for (const auto& child : of_pod) {
      const Finished result = child->Wait();
      EXPECT_TRUE(result.exited_with(0)) << result.errors;
      dispatches[pod] += static_cast<double>(Reported(result.output, "dispatches"));
    }
  }
  const auto of_pod = [&](const std::string& metric, const std::string& pod) {
    return prometheus.Query("sum by (namespace, pod, container) (max_over_time(" +
                            metric + "{namespace=\"ml\"," + pod + "}[10m]))");
  };
  const std::string trainer = R"(pod="trainer-0",container="main")";
  const std::string server = R"(pod="server-1",container="serve")";
  for (const auto& [pod, labels] :
       {std::make_pair(&first, trainer), std::make_pair(&second, server)}) {
    EXPECT_TRUE(Eventually([&, pod = pod, labels = labels] {
      return of_pod("rocattach_target_dispatches_total", labels) == dispatches[pod];
    })) << labels
        << ": " << of_pod("rocattach_target_dispatches_total", labels) << " instead of "
        << dispatches[pod];
    const double seconds = dispatches[pod] * 20e-6;
    EXPECT_NEAR(of_pod("rocattach_target_gpu_time_seconds_total", labels), seconds,
                0.02 * seconds);
  }
  EXPECT_EQ(prometheus.Query("sum(max_over_time(rocattach_gpu_dispatches_total[10m]))"),
            dispatches[&first] + dispatches[&second]);
  EXPECT_EQ(
      prometheus.Query("count(count by (pid) (count_over_time(rocattach_target_info{"
                       "node=\"node-7\",pod!=\"\"}[10m])))"),
      8);
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

// Without log folders, the kubelet tells which pod has the GPU.
TEST_F(MetricsTest, TheKubeletNamesAPodThatHasItsGpu) {
  const PodGroup group;
  if (!group.valid()) GTEST_SKIP() << "no control groups of the unified hierarchy";
  const FakeDriver driver;
  driver.AddGpu(1, 100, 3, 0xa);
  driver.Write("kfd/topology/generation_id", "1\n");
  FakeKubelet kubelet;
  kubelet.Assign("ml", "trainer-0", "main", "0000:03:00.0");
  const TemporaryDirectory nothing;
  Child child(group.Within({"sleep", "1000"}), {.dies_with_us = true});
  driver.Write(absl::StrCat("kfd/proc/", child.pid(), "/vram_100"), "1048576\n");
  WatcherProcess watcher({"--auto", "--metrics-listen", "0", "--kfd-topology",
                          driver.roots().kfd + "/topology", "--pod-logs",
                          nothing.path(), "--pod-resources", kubelet.socket()});
  ASSERT_TRUE(watcher.ready());
  const ListenAddress service = *ParseListenAddress(AddressOf(&watcher));
  const auto has = [&](const std::string& line) {
    return Eventually(
        [&] { return Body(Get(service, "/metrics")).find(line) != std::string::npos; });
  };
  const std::string names = R"(namespace="ml",pod="trainer-0",container="main",)";
  EXPECT_TRUE(has(absl::StrCat("rocattach_process_gpu_memory_bytes{pid=\"", child.pid(),
                               "\",comm=\"sleep\",", names,
                               "gpu=\"GPU-000000000000000a\"} 1048576\n")))
      << Body(Get(service, "/metrics"));
  EXPECT_TRUE(has(absl::StrCat(
      "rocattach_workload_gpu_memory_bytes{", names, "pod_uid=\"", group.uid(),
      "\",container_id=\"", group.id(), "\",gpu=\"GPU-000000000000000a\"} 1048576\n")))
      << Body(Get(service, "/metrics"));
  EXPECT_TRUE(has(absl::StrCat("rocattach_process_info{pid=\"", child.pid(), "\"")));
  kubelet.Hang(true);
  EXPECT_TRUE(watcher.Stop().exited_with(0)) << "and does not keep its end waiting";
  child.Signal(SIGKILL);
  (void)child.Wait();
}

TEST_F(MetricsTest, AnEnvironmentThatNamesNoJobIsCounted) {
  WatcherProcess watcher({"--auto", "--metrics-listen", "0"});
  ASSERT_TRUE(watcher.ready());
  const ListenAddress service = *ParseListenAddress(AddressOf(&watcher));
  const auto invalid = [&service](const char* count) {
    return Body(Get(service, "/metrics"))
               .find(absl::StrCat(
                   "\nrocattach_workload_failures_total{reason=\"invalid\"} ", count,
                   "\n")) != std::string::npos;
  };
  EXPECT_TRUE(invalid("0"));
  Child target(OnSimgpu({"hsa_dispatch", "-n", "20"}),
               {.environment = {"SLURM_JOB_ID=7\"},a=\""}});
  EXPECT_TRUE(target.Wait().exited_with(0));
  // At its end it may be too late to read it: then that is counted.
  EXPECT_TRUE(Eventually([&] {
    const std::string page = Body(Get(service, "/metrics"));
    const auto failed = [&page](const char* reason) {
      return page.find(absl::StrCat("rocattach_workload_failures_total{reason=\"",
                                    reason, "\"} 1\n")) != std::string::npos;
    };
    return failed("invalid") || failed("group_only") || failed("ended");
  })) << Body(Get(service, "/metrics"));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

TEST_F(MetricsTest, CountersAreThoseOfTheRecording) {
  WatcherProcess watcher(Watch({"--pmc", "SQ_WAVES", "--metrics-listen", "0"}));
  ASSERT_TRUE(watcher.ready());
  const ListenAddress service = *ParseListenAddress(AddressOf(&watcher));
  Child target(OnSimrocm(
      {}, {"hsa_dispatch", "-n", "100", "--rounds", "2", "--sleep-msec", "700"}));
  const pid_t pid = target.pid();
  // Of the metric's only series.
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
  // It ends in the middle of this, and is served for two more seconds.
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

// Counters at a low duty: for one second out of two here, and not while a user's session
// has them.
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
  // It has the counters as soon as it has started, whatever is counted just then.
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

TEST_F(MetricsTest, TopShowsWhatRuns) {
  WatcherProcess watcher({"--auto", "--metrics-listen", "0"});
  ASSERT_TRUE(watcher.ready());
  const std::string address = AddressOf(&watcher);
  const std::vector<std::string> top = {ClientPath(),      "top", "--connect", address,
                                        "--interval-msec", "400"};
  // It runs until it is told to end.
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
  // The screen of before is back.
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
  Child second({WatcherPath(), "--auto", "--collector", CollectorPath(), "-d",
                directory.path(), "-o", "run", "--metrics-listen", address});
  const Finished result = second.Wait();
  EXPECT_TRUE(result.exited_with(3));
  EXPECT_NE(result.errors.find("cannot listen at " + address), std::string::npos)
      << result.errors;
  EXPECT_TRUE(first.Stop().exited_with(0));
}

// Nobody attaches to it: what the driver says of it is all that is known.
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
