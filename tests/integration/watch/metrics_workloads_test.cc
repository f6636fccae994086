// Metrics name the pods, containers and jobs of processes.
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/made_group.h"
#include "tests/integration/watch/metrics_fixture.h"
#include "tests/temporary_directory.h"
#include "tests/unit/attribution/fake_kubelet.h"
#include "tests/unit/attribution/fake_pod_logs.h"
#include "tests/unit/gpus/fake_driver.h"
#include "tests/unit/telemetry/http_client.h"

namespace rocattach::testing_support {
namespace {

// A group with the name that the kubelet and containerd would give it.
class PodGroup : public MadeGroup {
 public:
  explicit PodGroup(std::string uid = kUid, char digit = 'a')
      : MadeGroup({"kubepods", "pod" + uid, std::string(64, digit)}),
        uid_(std::move(uid)),
        id_(64, digit) {}

  const std::string& uid() const { return uid_; }
  const std::string& id() const { return id_; }

  static constexpr char kUid[] = "0f3c1a2b-1234-4abc-9def-00112233aabb";

 private:
  const std::string uid_, id_;
};

using MetricsWorkloadsTest = MetricsTest;

constexpr char kOtherUid[] = "1f3c1a2b-1234-4abc-9def-00112233aabb";

TEST_F(MetricsWorkloadsTest, ProcessesAreAttributedToTheirPodContainerAndJob) {
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

// Eight processes of two pods share a GPU, without a device request: the total of a pod
// is what its programs have counted, and the sum is the total of the GPU.
TEST_F(MetricsWorkloadsTest, QueriesPerPodAreExactOnASharedGpu) {
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

// Without log folders, the kubelet names the pod that has the GPU.
TEST_F(MetricsWorkloadsTest, TheKubeletNamesAPodThatHasItsGpu) {
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

TEST_F(MetricsWorkloadsTest, AnEnvironmentThatNamesNoJobIsCounted) {
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
  // At its end it may be too late to read the environment: then that is counted.
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

}  // namespace
}  // namespace rocattach::testing_support
