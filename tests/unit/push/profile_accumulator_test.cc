#include "userspace/push/profile_accumulator.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace rocattach {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

KernelSnapshot Kernel(uint64_t id, uint64_t dispatches) {
  return {id, id == 1 ? "_Z5ScalePffi" : "other_kernel", {dispatches, dispatches * 10}};
}

ProcessSnapshot Process(uint32_t pid, std::vector<KernelSnapshot> kernels,
                        const std::string& pod = "") {
  ProcessSnapshot process;
  process.pid = pid;
  process.start_ns = 100 + pid;
  process.comm = "train";
  process.workload.pod = pod;
  process.kernels = std::move(kernels);
  process.has_other_kernels = true;
  return process;
}

NodeSnapshot Node(std::vector<ProcessSnapshot> processes) {
  NodeSnapshot node;
  node.processes = std::move(processes);
  return node;
}

// The total `which` of each leaf frame.
std::map<std::string, int64_t> Totals(const ProfileData& data, uint32_t which) {
  std::map<std::string, int64_t> totals;
  for (const ProfileSample& sample : data.samples) {
    for (const auto& [total, value] : sample.totals) {
      if (total == which) totals[data.frames[sample.frames[0]].name] += value;
    }
  }
  return totals;
}

class ProfileAccumulatorTest : public testing::Test {
 protected:
  using Expected = std::map<std::string, int64_t>;
  ProfileData Only() {
    const auto workloads = accumulator_.Workloads();
    EXPECT_EQ(workloads.size(), 1u);
    return workloads.empty() ? ProfileData()
                             : accumulator_.Profile(workloads[0], &demangler_);
  }

  ProfileAccumulator accumulator_{"node7"};
  Demangler demangler_;
};

TEST_F(ProfileAccumulatorTest, EachProfileIsTheGrowthSinceTheLast) {
  accumulator_.Add(Node({Process(7, {Kernel(1, 5)})}), 10 * kSecond);
  const ProfileData first = Only();
  EXPECT_EQ(Totals(first, kTotalDispatches),
            (Expected{{"Scale(float*, float, int)", 5}}));
  EXPECT_EQ(Totals(first, kTotalKernelTime),
            (Expected{{"Scale(float*, float, int)", 50}}));
  accumulator_.Drop(accumulator_.Workloads()[0]);
  EXPECT_TRUE(accumulator_.Workloads().empty());

  ProcessSnapshot process = Process(7, {Kernel(1, 8), Kernel(2, 1)});
  process.other_kernels = {4, 400};
  process.copies[2] = {1, 4096, 0};
  accumulator_.Add(Node({process}), 20 * kSecond);
  const ProfileData second = Only();
  EXPECT_EQ(Totals(second, kTotalDispatches),
            (Expected{{"Scale(float*, float, int)", 3},
                      {"other_kernel", 1},
                      {"other kernels", 4}}));
  EXPECT_EQ(Totals(second, kTotalCopiedBytes), (Expected{{"host_to_device", 4096}}));
  ASSERT_EQ(second.processes.size(), 1u);
  EXPECT_EQ(second.processes[0].begin_ns, 10 * kSecond);
  EXPECT_EQ(second.processes[0].end_ns, 20 * kSecond);
  accumulator_.Drop(accumulator_.Workloads()[0]);
  // Nothing has happened since.
  accumulator_.Add(Node({process}), 30 * kSecond);
  EXPECT_TRUE(accumulator_.Workloads().empty());
}

// A kernel that is not listed by name for a while continues from its last value.
TEST_F(ProfileAccumulatorTest, AKernelThatIsUnnamedForAWhileIsNotCountedTwice) {
  accumulator_.Add(Node({Process(7, {Kernel(1, 5)})}), kSecond);
  accumulator_.Add(Node({Process(7, {Kernel(2, 9)})}), 2 * kSecond);
  accumulator_.Add(Node({Process(7, {Kernel(1, 6), Kernel(2, 9)})}), 3 * kSecond);
  EXPECT_EQ(Totals(Only(), kTotalDispatches),
            (Expected{{"Scale(float*, float, int)", 6}, {"other_kernel", 9}}));
}

// While the server cannot be reached, processes end and are forgotten, and their
// process IDs are reused.
TEST_F(ProfileAccumulatorTest, EndedProcessesAreKeptUntilTheyArePushed) {
  accumulator_.Add(Node({Process(7, {Kernel(1, 5)})}), kSecond);
  accumulator_.Add(Node({}), 2 * kSecond);
  ProcessSnapshot next = Process(7, {Kernel(1, 2)});
  next.start_ns = 999;
  accumulator_.Add(Node({next}), 3 * kSecond);
  EXPECT_EQ(Totals(Only(), kTotalDispatches),
            (Expected{{"Scale(float*, float, int)", 7}}));
}

TEST_F(ProfileAccumulatorTest, EachWorkloadHasAProfile) {
  accumulator_.Add(Node({Process(7, {Kernel(1, 5)}), Process(8, {Kernel(1, 1)}, "a"),
                         Process(9, {Kernel(1, 2)}, "a")}),
                   kSecond);
  const auto workloads = accumulator_.Workloads();
  ASSERT_EQ(workloads.size(), 2u);
  EXPECT_EQ(workloads[0], (ProfileLabels{{"node", "node7"}}));
  EXPECT_EQ(workloads[1], (ProfileLabels{{"node", "node7"}, {"pod", "a"}}));
  const ProfileData pod = accumulator_.Profile(workloads[1], &demangler_);
  EXPECT_EQ(pod.processes.size(), 2u);
  EXPECT_EQ(Totals(pod, kTotalDispatches),
            (Expected{{"Scale(float*, float, int)", 3}}));
  accumulator_.Drop(workloads[1]);
  EXPECT_EQ(accumulator_.Workloads(), (std::vector<ProfileLabels>{workloads[0]}));
  // The pod becomes known later: dispatches from before get the label, too.
  accumulator_.Add(Node({Process(7, {Kernel(1, 6)}, "late")}), 2 * kSecond);
  EXPECT_EQ(Totals(Only(), kTotalDispatches),
            (Expected{{"Scale(float*, float, int)", 6}}));
  EXPECT_EQ(accumulator_.Workloads()[0].back().second, "late");
}

TEST_F(ProfileAccumulatorTest, DispatchesWithoutNamedKernelsCountAsOtherKernels) {
  ProcessSnapshot process = Process(7, {});
  process.has_other_kernels = false;
  process.gpus["GPU-1"] = {3, 30};
  process.gpus["GPU-2"] = {4, 40};
  accumulator_.Add(Node({process}), kSecond);
  EXPECT_EQ(Totals(Only(), kTotalDispatches), (Expected{{"other kernels", 7}}));
}

// Memory is bounded and nothing is lost, whatever the number of processes and kernels.
TEST_F(ProfileAccumulatorTest, MemoryIsBoundedAndTotalsAreRight) {
  int64_t dispatches = 0;
  for (uint32_t round = 0; round < 12; ++round) {
    std::vector<ProcessSnapshot> processes;
    for (uint32_t i = 0; i < 1000; ++i) {
      std::vector<KernelSnapshot> kernels;
      for (uint64_t kernel = 1; kernel <= 11; ++kernel) {
        kernels.push_back(Kernel(kernel, 1));
        ++dispatches;
      }
      processes.push_back(Process(round * 1000 + i, std::move(kernels)));
    }
    accumulator_.Add(Node(std::move(processes)), (round + 1) * kSecond);
  }
  int64_t sum = 0;
  size_t processes = 0;
  for (const ProfileLabels& workload : accumulator_.Workloads()) {
    const ProfileData data = accumulator_.Profile(workload, &demangler_);
    processes += data.processes.size();
    for (const auto& [name, value] : Totals(data, kTotalDispatches)) sum += value;
  }
  EXPECT_EQ(sum, dispatches);
  EXPECT_LE(processes, ProfileAccumulator::kMostProcesses + 1);
}

TEST_F(ProfileAccumulatorTest, AClockThatIsSetBackMakesNoNegativeSpan) {
  accumulator_.Add(Node({Process(7, {Kernel(1, 5)})}), 100 * kSecond);
  accumulator_.Add(Node({Process(7, {Kernel(1, 6)})}), 40 * kSecond);
  const ProfileData data = Only();
  EXPECT_LE(data.processes[0].begin_ns, data.processes[0].end_ns);
  EXPECT_EQ(data.processes[0].end_ns, 40 * kSecond);
}

}  // namespace
}  // namespace rocattach
