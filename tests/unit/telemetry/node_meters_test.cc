#include "userspace/telemetry/node_meters.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

rocattach_dispatch Dispatch(uint32_t kernel, uint64_t ns, uint16_t agent = 1) {
  rocattach_dispatch record = {};
  record.kind = ROCATTACH_RECORD_DISPATCH;
  record.kernel_id = kernel;
  record.agent_id = agent;
  record.start_ns = 1'000'000;
  record.end_ns = record.start_ns + ns;
  return record;
}

TargetStanding Standing(const std::string& gpu = "GPU-1") {
  TargetStanding standing;
  standing.gpus.resize(1);
  standing.gpus[0].agent_id = 1;
  standing.gpus[0].key = gpu;
  return standing;
}

v1::Process Process(uint32_t pid, const std::string& comm = "app") {
  v1::Process process;
  process.set_pid(pid);
  process.set_start_ticks(1000 + pid);
  process.set_comm(comm);
  return process;
}

class NodeMetersTest : public testing::Test {
 protected:
  static NodeMetersOptions Options() {
    NodeMetersOptions options;
    options.grace_ns = 0;
    return options;
  }
  std::shared_ptr<TargetMeter> Open(uint32_t pid, NodeMeters* meters) {
    auto names = std::make_shared<TargetNames>();
    names->AddKernel(1, "one");
    names->AddKernel(2, "two");
    auto meter = meters->Open(Process(pid), std::move(names));
    meter->Update(Standing());
    return meter;
  }
};

// The fullest ring since each consumer's last snapshot, and the cost of all collectors,
// including those of ended processes.
TEST_F(NodeMetersTest, ReportsTheCostOfCollectorsAndTheFullestRing) {
  NodeMetersOptions options = Options();
  options.consumers = 3;
  NodeMeters meters(options);
  const auto one = Open(7, &meters), two = Open(8, &meters);
  TargetStanding standing = Standing();
  standing.ring_fill = 0.5;
  standing.own_ns = 100;
  one->Update(standing);
  standing.ring_fill = 0.25;
  standing.own_ns = 30;
  two->Update(standing);
  EXPECT_EQ(meters.CaptureSnapshot(MetricsConsumer::kViewer).overhead_ns, 130u);
  EXPECT_EQ(meters.CaptureSnapshot(MetricsConsumer::kScrape).ring_fill, 0.5);
  EXPECT_EQ(meters.CaptureSnapshot(MetricsConsumer::kScrape).ring_fill, 0);
  standing.ring_fill = 0.125;
  one->Update(standing);
  standing.ring_fill = 0;
  standing.own_ns = 140;
  one->Update(standing);
  one->End();
  EXPECT_EQ(meters.CaptureSnapshot(MetricsConsumer::kScrape).ring_fill, 0.125);
  EXPECT_EQ(meters.CaptureSnapshot(MetricsConsumer::kPush).ring_fill, 0.5);
  const NodeSnapshot last = meters.CaptureSnapshot(MetricsConsumer::kPush);
  EXPECT_EQ(last.processes.size(), 1u) << "the other one has been forgotten";
  EXPECT_EQ(last.overhead_ns, 170u);
  EXPECT_EQ(last.ring_fill, 0);
}

// Counters of whole GPUs are the machine's, whichever process they were read through.
TEST_F(NodeMetersTest, CountersOfWholeGpusAddUpWithTheTimeThatTheyCover) {
  NodeMeters meters(Options());
  const auto one = Open(7, &meters), two = Open(8, &meters);
  const std::vector<std::string> names = {"SQ_WAVES", "GRBM_COUNT"};
  rocattach_counter_value reading = {0, 0, 1, 0, 0, 0};
  reading.sum = 100;
  one->AddSample(1, names, {&reading, 1}, 50);
  (void)meters.CaptureSnapshot(MetricsConsumer::kViewer);
  two->AddSample(1, names, {&reading, 1}, 20);
  reading.counter = 1;
  two->AddSample(1, names, {&reading, 1}, 30);
  two->End();
  for (int i = 0; i < 3; ++i) {
    const auto sampled =
        meters.CaptureSnapshot(MetricsConsumer::kScrape).gpus.at("GPU-1").sampled;
    ASSERT_EQ(sampled.size(), 2u);
    EXPECT_EQ(sampled.at("SQ_WAVES").sum, 200);
    EXPECT_EQ(sampled.at("SQ_WAVES").covered_ns, 70u);
    EXPECT_EQ(sampled.at("GRBM_COUNT").covered_ns, 30u);
  }
}

// A sampled record stands for several dispatches in every total; the number of those
// sampled out is exact.
TEST_F(NodeMetersTest, TotalsOfSampledDispatchesAreEstimates) {
  NodeMeters meters(Options());
  const auto meter = Open(7, &meters);
  meter->AddDispatches({Dispatch(1, 1000)});
  const rocattach_dispatch sampled[] = {Dispatch(1, 1000), Dispatch(2, 3000)};
  const uint32_t weights[] = {8, 1};
  meter->AddSampled(sampled, weights);
  TargetStanding standing = Standing();
  standing.account.set_sampled_out(7);
  meter->Update(standing);
  NodeSnapshot snapshot = meters.CaptureSnapshot(MetricsConsumer::kScrape);
  ASSERT_EQ(snapshot.processes.size(), 1u);
  const OperationTotals& totals = snapshot.processes[0].gpus.at("GPU-1");
  EXPECT_EQ(totals.dispatches, 10u);
  EXPECT_EQ(totals.time_ns, 12'000u);
  EXPECT_EQ(snapshot.processes[0].sampled_out, 7u);
  EXPECT_EQ(snapshot.processes[0].dropped, 0u);
  const GpuTotals& gpu = snapshot.gpus.at("GPU-1").totals;
  EXPECT_EQ(gpu.operations.dispatches, 10u);
  EXPECT_EQ(gpu.durations.count(), 10u);
  EXPECT_EQ(gpu.durations.sum_ns(), 12'000u);
  uint64_t of_kernels = snapshot.processes[0].other_kernels.dispatches;
  for (const KernelSnapshot& kernel : snapshot.processes[0].kernels) {
    of_kernels += kernel.totals.dispatches;
  }
  EXPECT_EQ(of_kernels, 10u);
  // Also after the process has ended and is forgotten.
  meter->End();
  (void)meters.CaptureSnapshot(MetricsConsumer::kScrape);
  snapshot = meters.CaptureSnapshot(MetricsConsumer::kScrape);
  EXPECT_TRUE(snapshot.processes.empty());
  EXPECT_EQ(snapshot.losses.sampled_out, 7u);
  EXPECT_EQ(snapshot.losses.sum(), 0u);
}

// If the processes of a GPU differ, the more certain answer counts.
TEST_F(NodeMetersTest, TheOwnerOfCountersIsKnownFromSessions) {
  NodeMeters meters(Options());
  const auto owner = [&] {
    return meters.CaptureSnapshot(MetricsConsumer::kViewer).gpus.at("GPU-1").owner;
  };
  const auto one = Open(7, &meters), two = Open(8, &meters);
  EXPECT_EQ(owner(), CounterOwner::kNone);
  TargetStanding standing = Standing();
  standing.external_gpus = {"GPU-1"};
  one->Update(standing);
  EXPECT_EQ(owner(), CounterOwner::kExternal);
  TargetStanding counting = Standing();
  counting.counted_gpus = {"GPU-1"};
  counting.counting_session = 3;
  two->Update(counting);
  EXPECT_EQ(owner(), CounterOwner::kUser);
  meters.AddOwnSession(3);
  EXPECT_EQ(owner(), CounterOwner::kDaemon);
  two->End();
  EXPECT_EQ(owner(), CounterOwner::kExternal);
  one->Update(Standing());
  EXPECT_EQ(owner(), CounterOwner::kNone);
}

// A process's start is wall time by the clock at its attach, even if that clock is set
// later.
TEST_F(NodeMetersTest, AStartDoesNotChange) {
  NodeMetersOptions options = Options();
  ClockSnapshot clock;
  clock.boottime_ns = 100;
  clock.realtime_ns = 1'000'000;
  options.clock = [&clock] { return clock; };
  NodeMeters meters(options);
  v1::Process process = Process(7);
  process.set_start_ns(60);
  process.set_hsa_library("/opt/rocm/lib/libhsa-runtime64.so.1.15.60403");
  const auto meter = meters.Open(process, std::make_shared<TargetNames>());
  for (const uint64_t wall_ns : {1'000'000, 50, 2'000'000'000}) {
    clock.realtime_ns = wall_ns;
    const NodeSnapshot node = meters.CaptureSnapshot(MetricsConsumer::kScrape);
    ASSERT_EQ(node.processes.size(), 1u);
    EXPECT_EQ(node.processes[0].start_wall_ns, 999'960u);
    EXPECT_EQ(node.processes[0].rocm, "6.4.3");
  }
}

TEST_F(NodeMetersTest, EverythingIsAddedUp) {
  NodeMeters meters(Options());
  const auto meter = Open(7, &meters);
  rocattach_dispatch untimed = Dispatch(2, 0);
  untimed.flags = ROCATTACH_DISPATCH_UNTIMED;
  untimed.start_ns = untimed.end_ns = 0;
  meter->AddDispatches(
      std::vector<rocattach_dispatch>{Dispatch(1, 3000), Dispatch(1, 500), untimed});
  rocattach_copy copy = {};
  copy.direction = ROCATTACH_COPY_HOST_TO_DEVICE;
  copy.bytes = 4096;
  copy.start_ns = 10;
  copy.end_ns = 30;
  meter->AddCopies(std::vector<rocattach_copy>{copy, copy});
  meter->AddCounters(
      1, {"SQ_WAVES", "TCC_HIT"},
      std::vector<rocattach_counter_value>{{1, 0, 1, 5.5, 0, 0}, {0, 0, 1, 64, 0, 0}});
  TargetStanding standing = Standing();
  standing.account.set_dropped_ring_full(3);
  standing.counted_gpus = {"GPU-1"};
  meter->Update(standing);

  const NodeSnapshot node = meters.CaptureSnapshot(MetricsConsumer::kScrape);
  ASSERT_EQ(node.processes.size(), 1u);
  const ProcessSnapshot& process = node.processes[0];
  EXPECT_EQ(process.pid, 7u);
  EXPECT_EQ(process.gpus.at("GPU-1").dispatches, 3u);
  EXPECT_EQ(process.gpus.at("GPU-1").time_ns, 3500u);
  EXPECT_EQ(process.copies.at(ROCATTACH_COPY_HOST_TO_DEVICE).bytes, 8192u);
  EXPECT_EQ(process.copies.at(ROCATTACH_COPY_HOST_TO_DEVICE).time_ns, 40u);
  EXPECT_EQ(process.counters.at({"GPU-1", "TCC_HIT"}).sum, 5.5);
  EXPECT_EQ(process.counters.at({"GPU-1", "SQ_WAVES"}).dispatches, 1u);
  EXPECT_EQ(process.dropped, 3u);
  ASSERT_EQ(process.kernels.size(), 2u);
  EXPECT_EQ(process.kernels[0].name, "one");
  const GpuSnapshot& gpu = node.gpus.at("GPU-1");
  EXPECT_EQ(gpu.totals.operations.dispatches, 3u);
  EXPECT_EQ(gpu.totals.untimed, 1u);
  EXPECT_EQ(gpu.totals.durations.In(-20), 1u);  // the one of 500 ns
  EXPECT_EQ(gpu.totals.durations.count(), 2u);
  EXPECT_EQ(gpu.owner, CounterOwner::kUser);
  EXPECT_EQ(node.losses.ring_full, 3u);
}

TEST_F(NodeMetersTest, AProcessIsExposedOnceMoreAfterItsEnd) {
  NodeMeters meters(Options());
  auto meter = Open(7, &meters);
  meter->AddDispatches(std::vector<rocattach_dispatch>{Dispatch(1, 100)});
  EXPECT_EQ(meters.CaptureSnapshot(MetricsConsumer::kScrape).processes.size(), 1u);
  meter->AddDispatches(std::vector<rocattach_dispatch>{Dispatch(1, 11)});
  meter->End();
  meter.reset();
  EXPECT_EQ(meters.CaptureSnapshot(MetricsConsumer::kViewer).processes.size(), 1u)
      << "not a scrape";
  const NodeSnapshot last = meters.CaptureSnapshot(MetricsConsumer::kScrape);
  ASSERT_EQ(last.processes.size(), 1u);
  EXPECT_TRUE(last.processes[0].ended);
  EXPECT_EQ(last.processes[0].gpus.at("GPU-1").time_ns, 111u);
  EXPECT_EQ(last.running, 0u);
  const NodeSnapshot after = meters.CaptureSnapshot(MetricsConsumer::kScrape);
  EXPECT_TRUE(after.processes.empty());
  EXPECT_EQ(after.series, 0u);
  EXPECT_EQ(after.gpus.at("GPU-1").totals.operations.time_ns, 111u) << "the GPU's stay";
  EXPECT_EQ(after.unexposed, 0u);
}

TEST_F(NodeMetersTest, AReusedPidNeverAppearsTwice) {
  NodeMeters meters(Options());
  const auto first = Open(7, &meters);
  first->AddDispatches(std::vector<rocattach_dispatch>{Dispatch(1, 100)});
  // An exec: records from before it may still be drained.
  const auto second = Open(7, &meters);
  second->AddDispatches(std::vector<rocattach_dispatch>{Dispatch(1, 10)});
  first->AddDispatches(std::vector<rocattach_dispatch>{Dispatch(1, 1)});
  first->End();
  const NodeSnapshot node = meters.CaptureSnapshot(MetricsConsumer::kScrape);
  ASSERT_EQ(node.processes.size(), 1u);
  EXPECT_EQ(node.processes[0].gpus.at("GPU-1").time_ns, 10u);
  EXPECT_EQ(node.gpus.at("GPU-1").totals.operations.time_ns, 111u);
}

TEST_F(NodeMetersTest, SeriesHaveAHardLimitThatIsCounted) {
  NodeMetersOptions options = Options();
  options.most_series = 100;
  NodeMeters meters(options);
  std::vector<std::shared_ptr<TargetMeter>> all;
  for (uint32_t pid = 1; pid <= 200; ++pid) {
    all.push_back(Open(pid, &meters));
    all.back()->AddDispatches(std::vector<rocattach_dispatch>{Dispatch(1, 10)});
  }
  NodeSnapshot node = meters.CaptureSnapshot(MetricsConsumer::kScrape);
  EXPECT_LE(node.series, 100u);
  EXPECT_GT(node.series, 90u);
  EXPECT_GT(node.series_refused, 100u);
  EXPECT_EQ(node.gpus.at("GPU-1").totals.operations.dispatches, 200u);
  const size_t exposed = node.processes.size();
  EXPECT_LT(exposed, 100u);
  EXPECT_EQ(meters.CaptureSnapshot(MetricsConsumer::kScrape).series_refused,
            node.series_refused)
      << "counted twice";
  // The room of ended processes is used again.
  for (size_t i = 0; i < exposed; ++i) all[i]->End();
  (void)meters.CaptureSnapshot(MetricsConsumer::kScrape);
  node = meters.CaptureSnapshot(MetricsConsumer::kScrape);
  ASSERT_FALSE(node.processes.empty());
  EXPECT_EQ(node.processes[0].pid, exposed + 1);
}

TEST_F(NodeMetersTest, ShortProcessesThatAreNotScrapedAreBounded) {
  NodeMetersOptions options = Options();
  options.most_ended = 16;
  NodeMeters meters(options);
  for (uint32_t pid = 1; pid <= 1000; ++pid) {
    const auto meter = Open(pid, &meters);
    meter->AddDispatches(std::vector<rocattach_dispatch>{Dispatch(1, 10)});
    meter->End();
  }
  const NodeSnapshot node = meters.CaptureSnapshot(MetricsConsumer::kScrape);
  EXPECT_LE(node.processes.size(), 16u);
  EXPECT_EQ(node.unexposed + node.processes.size(), 1000u);
  EXPECT_EQ(node.gpus.at("GPU-1").totals.operations.dispatches, 1000u);
}

TEST_F(NodeMetersTest, PartsOfOneGpuAreOneSeries) {
  NodeMeters meters(Options());
  const auto meter = Open(7, &meters);
  TargetStanding standing = Standing();
  standing.gpus.push_back(standing.gpus[0]);
  standing.gpus[1].agent_id = 2;
  meter->Update(standing);
  meter->AddDispatches(
      std::vector<rocattach_dispatch>{Dispatch(1, 10, 1), Dispatch(1, 5, 2)});
  const NodeSnapshot node = meters.CaptureSnapshot(MetricsConsumer::kScrape);
  ASSERT_EQ(node.processes[0].gpus.size(), 1u);
  EXPECT_EQ(node.processes[0].gpus.at("GPU-1").time_ns, 15u);
}

TEST_F(NodeMetersTest, AWorkloadIsFilledInLater) {
  NodeMeters meters(Options());
  const auto meter = Open(7, &meters);
  WorkloadIdentity workload;
  workload.pod = "trainer-0";
  meters.SetWorkload({7, 1}, workload);  // another process with this number
  EXPECT_EQ(meters.CaptureSnapshot(MetricsConsumer::kScrape).processes[0].workload.pod,
            "");
  meters.SetWorkload({7, 1007}, workload);
  EXPECT_EQ(meters.CaptureSnapshot(MetricsConsumer::kScrape).processes[0].workload.pod,
            "trainer-0");
}

TEST_F(NodeMetersTest, AWorkloadMayBeKnownBeforeTheAttach) {
  NodeMeters meters(Options());
  WorkloadIdentity workload;
  workload.slurm_job = "42";
  meters.SetWorkload({7, 1007}, workload);
  const auto meter = Open(7, &meters);
  EXPECT_EQ(
      meters.CaptureSnapshot(MetricsConsumer::kScrape).processes[0].workload.slurm_job,
      "42");
  // The workload of a process that is never attached is forgotten.
  meters.SetWorkload({8, 1008}, workload);
  for (size_t i = 0; i < NodeMeters::kMostEarlyWorkloads; ++i) {
    meters.SetWorkload({9, i}, workload);
  }
  const auto other = Open(8, &meters);
  EXPECT_EQ(
      meters.CaptureSnapshot(MetricsConsumer::kScrape).processes[1].workload.slurm_job,
      "");
}

TEST_F(NodeMetersTest, TheWindowNamesTheExecutableOfAProcessThatEndedEarly) {
  NodeMeters meters(Options());
  v1::Process process;
  process.set_pid(7);
  process.set_start_ticks(1007);
  process.set_executable("/opt/train");
  const auto meter = meters.Open(process, std::make_shared<TargetNames>());
  WorkloadIdentity of_group;
  of_group.pod_uid = "uid";
  meters.SetWorkload({7, 1007}, of_group);
  const NodeSnapshot node = meters.CaptureSnapshot(MetricsConsumer::kScrape);
  EXPECT_EQ(node.processes[0].workload.executable, "/opt/train");
  EXPECT_EQ(node.processes[0].workload.pod_uid, "uid");
}

// A series that appears with its first event shows no increase: alerts would miss it.
TEST_F(NodeMetersTest, EveryReasonIsThereFromTheStart) {
  const NodeSnapshot node =
      NodeMeters(Options()).CaptureSnapshot(MetricsConsumer::kScrape);
  for (int reason = v1::AttachReason_MIN; reason <= v1::AttachReason_MAX; ++reason) {
    const std::string name(AttachReasonName(static_cast<AttachReason>(reason)));
    EXPECT_EQ(node.windows.at({"refused", name}), 0u) << name;
    EXPECT_EQ(node.windows.at({"missed", name}), 0u) << name;
  }
  EXPECT_EQ(node.windows.at({"attached", "none"}), 0u);
  EXPECT_EQ(node.windows.at({"passed", "none"}), 0u);
}

TEST_F(NodeMetersTest, VerdictsAreCountedByReason) {
  NodeMeters meters(Options());
  v1::WindowEvent verdict;
  verdict.set_state(v1::WINDOW_STATE_ATTACHED);
  meters.OnVerdict(verdict);
  meters.OnVerdict(verdict);
  verdict.set_state(v1::WINDOW_STATE_REFUSED);
  verdict.set_reason(v1::ATTACH_REASON_ALREADY_TRACED);
  meters.OnVerdict(verdict);
  const NodeSnapshot node = meters.CaptureSnapshot(MetricsConsumer::kScrape);
  EXPECT_EQ(node.windows.at({"attached", "none"}), 2u);
  EXPECT_EQ(node.windows.at({"refused", "already-traced"}), 1u);
}

}  // namespace
}  // namespace rocattach
