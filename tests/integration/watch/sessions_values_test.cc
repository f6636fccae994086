// Counter values of sessions in the recording, dispatch by dispatch: many counters,
// GPUs and threads, with and without filters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/integration/collector/sdk_run.h"
#include "tests/integration/watch/session_truth.h"
#include "tests/integration/watch/sessions_fixture.h"

namespace rocattach::testing_support {
namespace {

struct Machine {
  int gpus, threads;  // threads on each GPU
};
constexpr Machine kMachines[] = {{1, 1}, {1, 16}, {8, 1}, {8, 16}};
constexpr int kDispatchesOfGpu = 64;

class SessionsValuesTest : public SessionsTest {
 protected:
  // Runs the workload; returns its process ID.
  pid_t Run(const Machine& machine, const std::string& log) {
    Child target(
        OnSimrocm({"--count", absl::StrCat(machine.gpus), "--dispatch-log", log},
                  {SIMROCM_WORKLOAD, "-t", absl::StrCat(machine.threads),
                   absl::StrCat("dispatch:", kDispatchesOfGpu / machine.threads)}));
    const pid_t pid = target.pid();
    const Finished result = target.Wait();
    EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
    EXPECT_EQ(Reported(result.output, "dispatches"), machine.gpus * kDispatchesOfGpu);
    EXPECT_EQ(result.errors, "");
    return pid;
  }
  std::string Log(const Machine& machine) const {
    return absl::StrCat(directory_.path(), "/", machine.gpus, "-", machine.threads);
  }
};

void ExpectNothingLost(const RecordedProcess& process) {
  EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
      << process.verdict.detail();
  EXPECT_EQ(process.dropped(), 0u);
  EXPECT_EQ(process.account.counted_dropped(), 0u);
  EXPECT_EQ(process.account.dispatches_seen(), process.account.dispatches_delivered());
}

class SessionsValuesOf : public SessionsValuesTest,
                         public testing::WithParamInterface<size_t> {};

TEST_P(SessionsValuesOf, AreCorrect) {
  const std::vector<std::string> names = KnownCounters(GetParam());
  ASSERT_EQ(names.size(), GetParam());
  std::vector<std::string> words = Watch({"--pmc"});
  words.insert(words.end(), names.begin(), names.end());
  WatcherProcess watcher(words);
  ASSERT_TRUE(watcher.ready());
  std::vector<pid_t> pids;
  for (const Machine& machine : kMachines) pids.push_back(Run(machine, Log(machine)));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Recording recording = ReadRecording(watcher.recording());
  EXPECT_TRUE(recording.damage.empty());
  for (size_t i = 0; i < pids.size(); ++i) {
    const Machine& machine = kMachines[i];
    SCOPED_TRACE(absl::StrCat(machine.gpus, " GPUs, ", machine.threads, " threads"));
    const RecordedProcess process = recording.Process(pids[i]);
    ExpectNothingLost(process);
    const auto total = static_cast<size_t>(machine.gpus * kDispatchesOfGpu);
    const std::vector<SimulatedDispatch> log = ReadDispatchLog(Log(machine));
    EXPECT_EQ(log.size(), total);
    const Compared compared = ExpectTruth(process, log, /*all=*/true);
    EXPECT_EQ(compared.dispatches, total);
    EXPECT_EQ(compared.counted.size(), total) << "from the first dispatch on";
    EXPECT_EQ(compared.counters, std::set<std::string>(names.begin(), names.end()));
    EXPECT_EQ(compared.of_kernel.size(), static_cast<size_t>(machine.gpus));
    EXPECT_EQ(process.account.counted_delivered(), total);
  }
}

INSTANTIATE_TEST_SUITE_P(Counters, SessionsValuesOf, testing::Values(1, 8, 40, 200),
                         testing::PrintToStringParamName());

TEST_F(SessionsValuesTest, OnlyChosenDispatchesHaveValues) {
  std::vector<std::string> words =
      Watch({"--kernel-include-regex", "incr", "--kernel-exclude-regex", "^accumulate$",
             "--kernel-iteration-range", "[3-5],[40]", "--pmc"});
  const std::vector<std::string> names = KnownCounters(40);
  words.insert(words.end(), names.begin(), names.end());
  WatcherProcess watcher(words);
  ASSERT_TRUE(watcher.ready());
  std::vector<pid_t> pids;
  for (const Machine& machine : kMachines) pids.push_back(Run(machine, Log(machine)));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Recording recording = ReadRecording(watcher.recording());
  for (size_t i = 0; i < pids.size(); ++i) {
    const Machine& machine = kMachines[i];
    SCOPED_TRACE(absl::StrCat(machine.gpus, " GPUs, ", machine.threads, " threads"));
    const RecordedProcess process = recording.Process(pids[i]);
    ExpectNothingLost(process);
    // Each GPU has a kernel of its own.
    const Compared compared =
        ExpectTruth(process, ReadDispatchLog(Log(machine)), /*all=*/true);
    EXPECT_EQ(compared.dispatches, static_cast<size_t>(machine.gpus * kDispatchesOfGpu))
        << "all are recorded, chosen or not";
    EXPECT_EQ(compared.of_kernel.size(), static_cast<size_t>(machine.gpus));
    for (const auto& [kernel, count] : compared.of_kernel) {
      EXPECT_EQ(count, 4u);
      EXPECT_EQ(process.kernels.at(kernel).name(), "increment");
    }
  }
}

TEST_F(SessionsValuesTest, ExcludedKernelsHaveNoValues) {
  WatcherProcess watcher(
      Watch({"--kernel-exclude-regex", "increment", "--pmc", "SQ_WAVES"}));
  ASSERT_TRUE(watcher.ready());
  const Machine machine = {8, 16};
  const pid_t pid = Run(machine, Log(machine));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  ExpectNothingLost(process);
  EXPECT_EQ(process.dispatches.size(),
            static_cast<size_t>(machine.gpus * kDispatchesOfGpu));
  EXPECT_TRUE(process.counters.empty());
}

// Two of eight GPUs, and ranges of the process's dispatches: exactly those dispatches
// were counted that match in the simulator's own log.
TEST_F(SessionsValuesTest, OnlyChosenGpusAndRangesHaveValues) {
  WatcherProcess watcher(
      Watch({"--gpu", "2", "--gpu", "5", "--dispatch-range",
             "[100-299],[400-450],[512]", "--pmc", "SQ_WAVES", "GRBM_COUNT"}));
  ASSERT_TRUE(watcher.ready());
  const Machine machine = {8, 16};
  const pid_t pid = Run(machine, Log(machine));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  ExpectNothingLost(process);
  // GPUs are numbered from 0, in the order in which the process sees them.
  std::vector<uint32_t> nodes;
  for (const auto& [id, agent] : process.agents) {
    if (agent.type() == v1::AGENT_TYPE_GPU) nodes.push_back(agent.node_id());
  }
  ASSERT_EQ(nodes.size(), 8u);
  const auto chosen = [&](const SimulatedDispatch& d) {
    const uint64_t id = d.shape.dispatch_id;
    return (d.node == nodes[2] || d.node == nodes[5]) &&
           ((id >= 100 && id <= 299) || (id >= 400 && id <= 450) || id == 512);
  };
  const std::vector<SimulatedDispatch> log = ReadDispatchLog(Log(machine));
  ASSERT_EQ(log.size(), static_cast<size_t>(machine.gpus * kDispatchesOfGpu));
  for (const SimulatedDispatch& d : log) {
    EXPECT_EQ(d.counted, chosen(d))
        << "dispatch " << d.shape.dispatch_id << " of node " << d.node;
  }
  const Compared compared = ExpectTruth(process, log, /*all=*/true);
  EXPECT_EQ(compared.dispatches, log.size()) << "all are recorded, chosen or not";
  EXPECT_GT(compared.counted.size(), 0u);
  EXPECT_EQ(compared.of_kernel.size(), 2u) << "each GPU has a kernel of its own";
}

// A GPU that rocprofiler-sdk cannot measure does not keep others from being measured.
TEST_F(SessionsValuesTest, AGpuThatCannotBeMeasuredIsLeftOut) {
  const std::string log = directory_.path() + "/log";
  const auto start = [&](WatcherProcess* watcher) {
    EXPECT_TRUE(watcher->ready());
    Child target(OnSimrocm({"--count", "2", "--dispatch-log", log},
                           {SIMROCM_WORKLOAD, "-t", "2",
                            absl::StrCat("dispatch:", kDispatchesOfGpu / 2)}),
                 {.environment = {"SIMROCM_BLIND_GPU=1"}});
    const pid_t pid = target.pid();
    const Finished result = target.Wait();
    EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
    EXPECT_EQ(result.errors, "");
    return pid;
  };
  WatcherProcess watcher(Watch({"--pmc", "SQ_WAVES"}));
  const pid_t pid = start(&watcher);
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  ExpectNothingLost(process);
  std::vector<uint32_t> gpus;
  for (const auto& [id, agent] : process.agents) {
    if (agent.type() != v1::AGENT_TYPE_GPU) continue;
    gpus.push_back(id);
    EXPECT_EQ(agent.name(), "gfx90a") << "from its version, where it has no name";
  }
  ASSERT_EQ(gpus.size(), 2u);
  const Compared compared = ExpectTruth(process, ReadDispatchLog(log), /*all=*/true);
  EXPECT_EQ(compared.dispatches, 2u * kDispatchesOfGpu);
  EXPECT_EQ(compared.counted.size(), static_cast<size_t>(kDispatchesOfGpu));
  for (const CounterRecord& record : process.counters) {
    EXPECT_EQ(record.agent_id, gpus[0]);
  }
  ASSERT_FALSE(process.sessions.empty());
  EXPECT_EQ(process.sessions[0].what(), v1::SessionEvent::STARTED);
  EXPECT_THAT(process.sessions[0].detail(), testing::HasSubstr("lists no counters"));
  // A session that names this GPU is refused.
  std::filesystem::remove(log);
  WatcherProcess named(Watch({"--pmc", "SQ_WAVES", "--gpu", "1"}));
  const pid_t refused_pid = start(&named);
  EXPECT_TRUE(named.Stop().exited_with(1));
  const RecordedProcess refused = ReadRecording(named.recording()).Process(refused_pid);
  EXPECT_TRUE(refused.counters.empty());
  ASSERT_EQ(refused.sessions.size(), 1u);
  EXPECT_EQ(refused.sessions[0].what(), v1::SessionEvent::REFUSED);
  EXPECT_EQ(refused.dispatches.size(), 2u * kDispatchesOfGpu) << "the rest goes on";
}

// scripts/run with counters, where there is no GPU.
TEST_F(SessionsValuesTest, TheRunScriptMeasuresWhereThereIsNoGpu) {
  Child script({ROCATTACH_TEST_SOURCE "/scripts/run", "--pmc", "SQ_WAVES", "-d",
                directory_.path(), "--", TargetPath("hsa_dispatch"), "-n", "20",
                "--work-items", "640"},
               {.environment = {"ROCATTACH_BUILD=" ROCATTACH_TEST_BUILD,
                                "TMPDIR=" + directory_.path()}});
  const Finished result = script.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
  EXPECT_THAT(result.errors, testing::HasSubstr("20 measured"));
  // 15 dispatches of one kernel and 5 of the other, of 10 waves each.
  EXPECT_THAT(result.output,
              testing::ContainsRegex("150 +10 +15 +1 of 1 +SQ_WAVES +increment"));
  EXPECT_THAT(result.output,
              testing::ContainsRegex("50 +10 +5 +1 of 1 +SQ_WAVES +accumulate"));
  for (const auto& left : std::filesystem::directory_iterator(directory_.path())) {
    EXPECT_EQ(left.path().filename().string().find("rocattach-topology"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace rocattach::testing_support
