#include "userspace/telemetry/gpu_use_totals.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "userspace/telemetry/metric_labels.h"

namespace rocattach {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

class GpuUseTotalsTest : public testing::Test {
 protected:
  // Adds a process that uses GPU "a", of workload `pod` unless that is empty.
  void Add(pid_t pid, const std::string& pod, uint64_t vram, uint64_t sdma_us) {
    GpuProcess process;
    process.id = {pid, 1};
    process.gpus["a"].kfd_vram_bytes = vram;
    process.gpus["a"].sdma_us = sdma_us;
    usage_.processes.push_back(std::move(process));
    if (!pod.empty()) workloads_[{pid, 1}].pod_uid = pod;
  }
  void Read(GpuUseTotals* totals, uint64_t now_ns) {
    totals->Update(std::move(usage_), workloads_, now_ns);
    usage_ = {};
    workloads_.clear();
  }
  static NodeSnapshot SnapshotOf(GpuUseTotals* totals, uint64_t now_ns,
                                 uint64_t limit = 1000) {
    NodeSnapshot snapshot;
    snapshot.series_limit = limit;
    totals->AddTo(&snapshot, now_ns);
    return snapshot;
  }

  GpuUsage usage_;
  std::map<ProcessId, WorkloadIdentity> workloads_;
};

TEST_F(GpuUseTotalsTest, BeforeTheFirstReadingNothingIsSaid) {
  GpuUseTotals totals;
  EXPECT_FALSE(SnapshotOf(&totals, kSecond).uses_age_ns.has_value());
}

TEST_F(GpuUseTotalsTest, WorkloadsAreSumsOfTheirProcesses) {
  GpuUseTotals totals;
  Add(1, "x", 100, 10);
  Add(2, "x", 50, 5);
  Add(3, "y", 7, 1);
  Add(4, "", 1000, 1);
  Read(&totals, kSecond);
  const NodeSnapshot node = SnapshotOf(&totals, 2 * kSecond);
  EXPECT_EQ(node.uses.size(), 4u);
  ASSERT_EQ(node.workload_uses.size(), 2u);
  EXPECT_EQ(node.workload_uses[0].workload.pod_uid, "x");
  EXPECT_EQ(node.workload_uses[0].gpus.at("a").vram_bytes, 150u);
  EXPECT_EQ(node.workload_uses[0].gpus.at("a").sdma_us, 15u);
  EXPECT_FALSE(node.workload_uses[0].gpus.at("a").cu_occupancy.has_value());
  EXPECT_EQ(node.workload_uses[1].gpus.at("a").vram_bytes, 7u);
  EXPECT_EQ(node.series, 4 * 3 + 2 * 2u) << "two values and the info of each process";
  EXPECT_EQ(node.uses_age_ns, kSecond);
}

TEST_F(GpuUseTotalsTest, TotalsOfAWorkloadDoNotGoBack) {
  GpuUseTotals totals;
  Add(1, "x", 100, 10);
  Add(2, "x", 50, 5);
  Read(&totals, kSecond);
  Add(2, "x", 50, 6);
  Read(&totals, 2 * kSecond);
  const NodeSnapshot node = SnapshotOf(&totals, 2 * kSecond);
  ASSERT_EQ(node.workload_uses.size(), 1u);
  EXPECT_EQ(node.workload_uses[0].gpus.at("a").sdma_us, 16u);
  EXPECT_EQ(node.workload_uses[0].gpus.at("a").vram_bytes, 50u) << "memory is freed";
  Read(&totals, 3 * kSecond);
  EXPECT_TRUE(SnapshotOf(&totals, 3 * kSecond).workload_uses.empty()) << "it has ended";
  Add(3, "x", 1, 1);
  Read(&totals, 4 * kSecond);
  EXPECT_EQ(SnapshotOf(&totals, 4 * kSecond).workload_uses.at(0).gpus.at("a").sdma_us,
            17u);
  Read(&totals, 5 * kSecond);
  Read(&totals, 2000 * kSecond);
  Add(4, "x", 1, 1);
  Read(&totals, 2001 * kSecond);
  EXPECT_EQ(
      SnapshotOf(&totals, 2001 * kSecond).workload_uses.at(0).gpus.at("a").sdma_us, 1u)
      << "forgotten";
}

TEST_F(GpuUseTotalsTest, NamesThatAreFoundLaterDoNotMakeTotalsGoBack) {
  GpuUseTotals totals;
  Add(1, "x", 100, 10);
  Add(2, "x", 50, 5);
  Read(&totals, kSecond);
  Add(2, "x", 50, 6);
  Read(&totals, 2 * kSecond);
  // One process has ended, and the kubelet now reports the pod's name.
  Add(2, "x", 50, 7);
  WorkloadIdentity& named = workloads_[{2, 1}];
  named.pod = "trainer-0";
  named.kube_namespace = "ml";
  named.container = "main";
  Read(&totals, 3 * kSecond);
  const NodeSnapshot node = SnapshotOf(&totals, 3 * kSecond);
  ASSERT_EQ(node.workload_uses.size(), 1u);
  EXPECT_EQ(node.workload_uses[0].workload.pod, "trainer-0");
  EXPECT_EQ(node.workload_uses[0].gpus.at("a").sdma_us, 17u);
}

TEST_F(GpuUseTotalsTest, APodThatIsCreatedAgainHasSeriesOfItsOwn) {
  GpuUseTotals totals;
  for (pid_t pid = 1; pid <= 2; ++pid) {
    Add(pid, "uid-" + std::to_string(pid), 100, 10);
    workloads_[{pid, 1}].pod = "stateful-0";
    workloads_[{pid, 1}].container = "main";
  }
  Read(&totals, kSecond);
  const NodeSnapshot node = SnapshotOf(&totals, kSecond);
  ASSERT_EQ(node.workload_uses.size(), 2u);
  const auto labels = [&](size_t i) {
    std::set<std::string> all;
    for (const auto& label : WorkloadLabels(node.workload_uses[i].workload)) {
      EXPECT_TRUE(all.insert(label.name + "=" + label.value).second);
    }
    return all;
  };
  EXPECT_NE(labels(0), labels(1)) << "two series with equal labels are no valid page";
}

TEST_F(GpuUseTotalsTest, ExecutableNamesAreCleaned) {
  GpuUseTotals totals;
  Add(1, "x", 100, 10);
  workloads_[{1, 1}].executable = "/tmp/\xff\n";
  Read(&totals, kSecond);
  EXPECT_EQ(SnapshotOf(&totals, kSecond).uses.at(0).workload.executable, "/tmp/??");
}

TEST_F(GpuUseTotalsTest, EndedWorkloadsAreBounded) {
  GpuUseTotals::Options options;
  options.most_ended = 2;
  GpuUseTotals totals(options);
  for (pid_t pid = 1; pid <= 5; ++pid) {
    Add(pid, std::string(static_cast<size_t>(pid), 'x'), 1, 100);
    Read(&totals, static_cast<uint64_t>(pid) * kSecond);
  }
  Read(&totals, 6 * kSecond);
  for (pid_t pid = 1; pid <= 5; ++pid) {
    Add(pid + 5, std::string(static_cast<size_t>(pid), 'x'), 1, 1);
  }
  Read(&totals, 7 * kSecond);
  uint64_t sum = 0;
  for (const auto& workload : SnapshotOf(&totals, 7 * kSecond).workload_uses) {
    sum += *workload.gpus.at("a").sdma_us;
  }
  EXPECT_EQ(sum, 5 * 1 + 2 * 100u);
}

TEST_F(GpuUseTotalsTest, SeriesHaveTheSnapshotsLimit) {
  GpuUseTotals totals;
  Add(1, "x", 100, 10);
  Add(2, "", 50, 5);
  Add(3, "", 50, 5);
  Read(&totals, kSecond);
  for (int i = 0; i < 2; ++i) {
    const NodeSnapshot node = SnapshotOf(&totals, kSecond, /*limit=*/6);
    EXPECT_EQ(node.workload_uses.size(), 1u);
    EXPECT_EQ(node.uses.size(), 1u);
    EXPECT_EQ(node.series, 5u);
    EXPECT_EQ(node.series_refused, 6u) << "each is counted once";
  }
}

TEST_F(GpuUseTotalsTest, OldValuesAreNotShownAsCurrent) {
  GpuUseTotals totals;
  Add(1, "x", 100, 10);
  usage_.devices.emplace_back().key = "a";
  Read(&totals, kSecond);
  EXPECT_EQ(SnapshotOf(&totals, 20 * kSecond).gpus.count("a"), 1u);
  const NodeSnapshot node = SnapshotOf(&totals, 100 * kSecond);
  EXPECT_TRUE(node.uses.empty());
  EXPECT_TRUE(node.gpus.empty());
  EXPECT_EQ(node.uses_age_ns, 99 * kSecond) << "and that is seen";
}

TEST_F(GpuUseTotalsTest, UnusedGpusAreListed) {
  GpuUseTotals totals;
  GpuDevice& device = usage_.devices.emplace_back();
  device.key = device.pci = "0000:03:00.0/1";
  device.architecture = "gfx942";
  device.model = "MI300X_A1";
  device.partition = 1;
  device.vram_total_bytes = 5;
  Read(&totals, kSecond);
  const NodeSnapshot node = SnapshotOf(&totals, kSecond);
  const GpuSnapshot& gpu = node.gpus.at("0000:03:00.0/1");
  EXPECT_EQ(gpu.gpu.architecture, "gfx942");
  EXPECT_EQ(gpu.gpu.product_name, "MI300X_A1");
  EXPECT_EQ(gpu.partition, 1u);
  EXPECT_EQ(gpu.vram_bytes, 5u);
  EXPECT_FALSE(gpu.vram_used_bytes.has_value());
}

}  // namespace
}  // namespace rocattach
