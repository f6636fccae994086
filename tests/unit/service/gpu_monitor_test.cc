#include "userspace/service/gpu_monitor.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/unit/gpus/fake_driver.h"

namespace rocattach {
namespace {

using testing_support::FakeDriver;

NodeSnapshot SnapshotOf(const GpuMonitor& monitor) {
  NodeSnapshot snapshot;
  snapshot.series_limit = 1000;
  monitor.AddTo(&snapshot);
  return snapshot;
}

// The first snapshot that meets `wanted`, or the last one when the time is over.
template <typename Wanted>
NodeSnapshot WaitForSnapshot(const GpuMonitor& monitor, Wanted wanted) {
  const absl::Time end = absl::Now() + absl::Seconds(60);
  for (;;) {
    NodeSnapshot snapshot = SnapshotOf(monitor);
    if (wanted(snapshot) || absl::Now() > end) return snapshot;
    absl::SleepFor(absl::Milliseconds(1));
  }
}

class GpuMonitorTest : public testing::Test {
 protected:
  GpuMonitorTest() {
    driver_.AddGpu(1, 100, 3, 0xa);
    driver_.AddProcess(7, 1007, "train");
    driver_.Write("proc/7/cgroup", "0::/docker/" + std::string(64, 'c') + "\n");
    driver_.Write("proc/7/environ", "");
    driver_.Write("kfd/proc/7/vram_100", "4096\n");
    options_.roots = driver_.roots();
    options_.period = absl::Milliseconds(1);
  }
  const FakeDriver driver_;
  GpuMonitor::Options options_;
};

TEST_F(GpuMonitorTest, ProcessesHaveTheirWorkloads) {
  GpuMonitor monitor(options_);
  const NodeSnapshot node =
      WaitForSnapshot(monitor, [](const NodeSnapshot& n) { return !n.uses.empty(); });
  ASSERT_EQ(node.uses.size(), 1u);
  EXPECT_EQ(node.uses[0].workload.container_id, std::string(64, 'c'));
  ASSERT_EQ(node.workload_uses.size(), 1u);
  EXPECT_EQ(node.workload_uses[0].gpus.at("GPU-000000000000000a").vram_bytes, 4096u);
  driver_.Write("kfd/proc/7/vram_100", "5000\n");
  EXPECT_EQ(WaitForSnapshot(monitor,
                            [](const NodeSnapshot& n) {
                              return n.uses.at(0).gpus.begin()->second.vram_bytes() ==
                                     5000u;
                            })
                .uses.size(),
            1u);
  driver_.Remove("kfd/proc/7");
  EXPECT_TRUE(WaitForSnapshot(monitor, [](const NodeSnapshot& n) {
                return n.uses.empty();
              }).uses.empty());
}

TEST_F(GpuMonitorTest, AWorkloadFoundLaterIsAddedAndReported) {
  int asked = 0, told = 0;
  options_.complete = [&](const WorkloadQuestion& question,
                          WorkloadIdentity* workload) {
    EXPECT_EQ(question.process.pid, 7);
    EXPECT_EQ(question.gpus.size(), 1u);
    EXPECT_FALSE(question.shared_by_pods);
    if (++asked < 3) return false;
    workload->pod = "trainer-0";
    return true;
  };
  options_.on_workload = [&](const ProcessId& id, const WorkloadIdentity& workload) {
    EXPECT_EQ(id.pid, 7);
    EXPECT_EQ(workload.pod, "trainer-0");
    ++told;
  };
  GpuMonitor monitor(options_);
  const NodeSnapshot node = WaitForSnapshot(monitor, [](const NodeSnapshot& n) {
    return !n.uses.empty() && !n.uses[0].workload.pod.empty();
  });
  ASSERT_EQ(node.uses.size(), 1u);
  EXPECT_EQ(node.uses[0].workload.pod, "trainer-0");
  monitor.Stop();
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(told, 1);
}

TEST_F(GpuMonitorTest, AWorkloadThatCannotBeReadIsReadAgain) {
  driver_.Remove("proc/7/cgroup");
  options_.complete = [&](const WorkloadQuestion&, WorkloadIdentity* workload) {
    if (workload->container_id.empty()) {
      driver_.Write("proc/7/cgroup", "0::/docker/" + std::string(64, 'c') + "\n");
    }
    return true;
  };
  GpuMonitor monitor(options_);
  const NodeSnapshot node = WaitForSnapshot(monitor, [](const NodeSnapshot& n) {
    return !n.uses.empty() && !n.uses[0].workload.container_id.empty();
  });
  EXPECT_EQ(node.uses.at(0).workload.container_id, std::string(64, 'c'));
}

TEST_F(GpuMonitorTest, AGpuThatSeveralPodsUseIsKnownAsSuch) {
  const auto in_pod = [&](pid_t pid, char digit) {
    driver_.Write(absl::StrCat("proc/", pid, "/cgroup"),
                  absl::StrCat("0::/kubepods/pod", std::string(32, digit), "/",
                               std::string(64, digit), "\n"));
  };
  in_pod(7, 'a');
  driver_.AddProcess(8, 1008, "infer");
  driver_.Write("proc/8/environ", "");
  in_pod(8, 'b');
  driver_.Write("kfd/proc/8/vram_100", "4096\n");
  options_.complete = [](const WorkloadQuestion& question, WorkloadIdentity* workload) {
    workload->pod = question.shared_by_pods ? "several" : "one";
    return true;
  };
  {
    GpuMonitor monitor(options_);
    const NodeSnapshot node = WaitForSnapshot(
        monitor, [](const NodeSnapshot& n) { return n.uses.size() == 2; });
    ASSERT_EQ(node.uses.size(), 2u);
    EXPECT_EQ(node.uses[0].workload.pod, "several");
    EXPECT_EQ(node.uses[1].workload.pod, "several");
  }
  // Two containers of one pod do not count as several pods.
  in_pod(8, 'a');
  GpuMonitor monitor(options_);
  const NodeSnapshot node = WaitForSnapshot(
      monitor, [](const NodeSnapshot& n) { return n.uses.size() == 2; });
  ASSERT_EQ(node.uses.size(), 2u);
  EXPECT_EQ(node.uses[0].workload.pod, "one");
}

TEST_F(GpuMonitorTest, FailuresAreCountedAndReportedOnce) {
  driver_.Write("kfd/proc/7/vram_100", "garbage");
  int said = 0;
  options_.on_failure = [&](absl::string_view source, const absl::Status& why) {
    EXPECT_EQ(source, "GPUs");
    EXPECT_FALSE(why.ok());
    ++said;
  };
  GpuMonitor monitor(options_);
  const NodeSnapshot node = WaitForSnapshot(monitor, [](const NodeSnapshot& n) {
    const auto found = n.source_failures.find({"kfd", "malformed"});
    return found != n.source_failures.end() && found->second > 2;
  });
  EXPECT_GT(node.source_failures.at({"kfd", "malformed"}), 2u);
  monitor.Stop();
  EXPECT_EQ(said, 1);
}

}  // namespace
}  // namespace rocattach
