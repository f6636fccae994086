// Processes that already have a profiler in them: a library with a visible
// rocprofiler_configure, as in every ROCm build of PyTorch. Each is run natively, with
// that tool alone, and with the service as well: then both must have recorded
// everything, and the service must affect neither the program nor the tool.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/integration/simrocm/other_tool_report.h"
#include "tests/integration/watch/harness.h"

// The build has no HIP programs without hipcc; in CI that is an error.
#define SKIP_WITHOUT_HIP()                                   \
  do {                                                       \
    if (!std::filesystem::exists(TargetPath("hip_busy"))) {  \
      if (getenv("CI") != nullptr) FAIL() << "no hipcc";     \
      GTEST_SKIP() << "no hipcc; scripts/setup installs it"; \
    }                                                        \
  } while (false)

namespace rocattach::testing_support {
namespace {

using testing::HasSubstr;

// The way in which the SDK of the process sees queues.
enum class Mode { kIntercept, kInline };

std::string ModeName(const testing::TestParamInfo<Mode>& info) {
  return info.param == Mode::kIntercept ? "intercept_queues" : "inline_interposition";
}

struct Outcome {
  pid_t pid = 0;
  Finished program;
  OtherToolReport report;
};

// Number of starts and stops: 10,000 in full, otherwise what the machine has time for.
uint64_t Switches(uint64_t reduced) {
  const char* full = getenv("ROCATTACH_TEST_SWITCHES");
  return full != nullptr ? std::strtoull(full, nullptr, 10) : reduced;
}

class OtherTool : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }

  std::string Done() const { return directory_.path() + "/done"; }

  // Runs the program with the tool in it; `words` is the value of OTHER_TOOL.
  Outcome Run(const std::string& words, Mode mode, std::vector<std::string> target,
              std::vector<std::string> environment = {}) {
    const std::string report = directory_.path() + "/report";
    std::filesystem::remove(report);
    std::filesystem::remove(Done());
    target[0] = TargetPath(target[0]);
    std::vector<std::string> command = {SimrocmRunPath(), "--preload", OTHER_TOOL};
    if (mode == Mode::kInline) command.push_back("--interposition");
    command.insert(command.end(), target.begin(), target.end());
    // Otherwise the simulated GPU takes a packet after a while without its doorbell: on
    // a busy machine, some would pass that neither tool has seen.
    environment.insert(environment.end(),
                       {"SIMGPU_UNRUNG_NS=1000000000", "OTHER_TOOL=" + words,
                        "OTHER_TOOL_OUTPUT=" + report, "OTHER_TOOL_DONE=" + Done()});
    Child child(command, {.environment = environment});
    Outcome outcome;
    outcome.pid = child.pid();
    outcome.program = child.Wait();
    outcome.report = ReadOtherToolReport(report);
    return outcome;
  }

  ExecutableDirectory directory_;
};

// Expects that the program ran to its end as if it were alone.
void ExpectRight(const Outcome& outcome) {
  ASSERT_TRUE(outcome.program.exited_with(0))
      << outcome.program.status << outcome.program.output << outcome.program.errors;
  EXPECT_EQ(outcome.program.errors, "");
  EXPECT_THAT(outcome.program.output, HasSubstr("result=ok"));
}

// Expects a consistent report of the tool, whatever it was switched to record.
void ExpectSound(const OtherToolReport& report) {
  ASSERT_TRUE(report.complete);
  EXPECT_EQ(report.Total("dropped"), 0u);
  EXPECT_EQ(report.Total("repeated"), 0u);
  EXPECT_EQ(report.Total("unordered"), 0u);
  EXPECT_EQ(report.TimedDispatches(), report.Total("dispatches"));
  EXPECT_EQ(report.TimedCopies(), report.Total("copies"));
}

double MeanNs(const OtherToolReport::Sums& sums) {
  return static_cast<double>(sums.ns) / static_cast<double>(sums.count);
}

// The program's HSA calls, except for those that it repeats until something happens.
std::map<std::string, uint64_t> CallsOfFixedNumber(const OtherToolReport& report) {
  std::map<std::string, uint64_t> calls = report.calls;
  std::erase_if(calls, [](const auto& call) {
    return call.first.find("_load_") != std::string::npos ||
           call.first.find("_wait_") != std::string::npos;
  });
  return calls;
}

// Expects that the tool recorded the same in two runs of a program, except for times.
void ExpectSame(const OtherToolReport& with_us, const OtherToolReport& alone) {
  ASSERT_EQ(with_us.dispatches.size(), alone.dispatches.size());
  for (const auto& [key, sums] : alone.dispatches) {
    ASSERT_TRUE(with_us.dispatches.contains(key)) << key.first << " " << key.second;
    const OtherToolReport::Sums& ours = with_us.dispatches.at(key);
    EXPECT_EQ(ours.count, sums.count) << "queue " << key.first;
    EXPECT_EQ(ours.timed, sums.timed) << "queue " << key.first;
    // By the simulated GPU's clock, each kernel lasts as long as was set.
    EXPECT_NEAR(MeanNs(ours), MeanNs(sums), 0.04 * MeanNs(sums));
  }
  ASSERT_EQ(with_us.copies.size(), alone.copies.size());
  for (const auto& [direction, sums] : alone.copies) {
    ASSERT_TRUE(with_us.copies.contains(direction)) << direction;
    EXPECT_EQ(with_us.copies.at(direction).count, sums.count);
    EXPECT_EQ(with_us.copies.at(direction).timed, sums.timed);
    EXPECT_EQ(with_us.copies.at(direction).bytes, sums.bytes);
  }
  EXPECT_EQ(CallsOfFixedNumber(with_us), CallsOfFixedNumber(alone))
      << "a call of ours was traced as the program's";
}

// HIP 6 copies small buffers with kernels of its own.
size_t CopiesByKernels(const RecordedProcess& process) {
  return static_cast<size_t>(
      std::ranges::count_if(process.dispatches, [&](const rocattach_dispatch& d) {
        const auto kernel = process.kernels.find(d.kernel_id);
        return kernel != process.kernels.end() &&
               kernel->second.name().starts_with("__amd_rocclr_copyBuffer");
      }));
}

// Expects that every dispatch and copy of the program is recorded, once and with times.
void ExpectFullRecord(const RecordedProcess& process, const Finished& program) {
  EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
      << process.verdict.detail();
  const size_t by_kernels = CopiesByKernels(process);
  const auto made =
      static_cast<size_t>(Reported(program.output, "dispatches")) + by_kernels;
  const auto copies =
      static_cast<size_t>(Reported(program.output, "copies")) - by_kernels;
  EXPECT_EQ(process.dispatches.size(), made);
  EXPECT_EQ(process.copies.size(), copies);
  EXPECT_EQ(process.dropped(), 0u);
  EXPECT_EQ(process.account.packets_unseen(), 0u);
  EXPECT_EQ(process.account.untimed(), 0u);
  EXPECT_EQ(process.account.unfinished(), 0u);
  EXPECT_TRUE(process.ended);
  EXPECT_EQ(process.verdict.collector().entry_path(), v1::ENTRY_PATH_LIVE_TABLE)
      << process.verdict.collector().entry_reason();
  EXPECT_EQ(process.verdict.collector().other_tool(), OTHER_TOOL);
  std::set<uint64_t> operations;
  size_t wrong_times = 0, unnamed = 0;
  for (const rocattach_dispatch& d : process.dispatches) {
    operations.insert(d.correlation_id);
    wrong_times += std::abs(static_cast<double>(d.end_ns - d.start_ns) - 5000) > 200;
    unnamed += !process.kernels.contains(d.kernel_id);
  }
  EXPECT_EQ(wrong_times, 0u) << "each kernel lasts 5 µs";
  EXPECT_EQ(unnamed, 0u);
  uint64_t bytes = 0;
  for (const rocattach_copy& c : process.copies) {
    operations.insert(c.correlation_id);
    bytes += c.bytes;
    EXPECT_LT(c.start_ns, c.end_ns);
  }
  if (by_kernels == 0) {
    EXPECT_EQ(bytes, static_cast<uint64_t>(Reported(program.output, "bytes")));
  }
  EXPECT_EQ(operations.size(), made + copies) << "each once";
}

class OtherToolIn : public OtherTool, public testing::WithParamInterface<Mode> {
 protected:
  // Runs a program with a fixed amount of work three times, and compares its output,
  // the tool's report and the recording.
  void CompareThreeRuns(const std::string& words,
                        const std::vector<std::string>& program,
                        const std::vector<std::string>& options = {"--auto"}) {
    const Finished natively = RunTarget(program);
    const Outcome alone = Run(words, GetParam(), program);
    {
      SCOPED_TRACE("with its own tool alone");
      ExpectRight(alone);
      ExpectSound(alone.report);
    }
    WatcherProcess watcher(options);
    ASSERT_TRUE(watcher.ready());
    const Outcome both = Run(words, GetParam(), program);
    EXPECT_TRUE(watcher.Stop().exited_with(0));
    ExpectRight(both);
    ExpectSound(both.report);
    for (const char* figure : {"dispatches", "copies", "bytes"}) {
      EXPECT_EQ(Reported(both.program.output, figure),
                Reported(natively.output, figure));
    }
    EXPECT_EQ(both.program.status, natively.status);
    EXPECT_EQ(both.program.errors, natively.errors);
    ExpectSame(both.report, alone.report);
    ExpectFullRecord(ReadRecording(watcher.recording()).Process(both.pid),
                     both.program);
  }
};

TEST_P(OtherToolIn, BothRecordAPlainProgram) {
  CompareThreeRuns("dispatch copy",
                   {"hsa_busy", "-n", "3000", "-t", "3", "--copies", "40"});
}

// Several threads share each queue.
TEST_P(OtherToolIn, BothRecordQueuesOfSeveralProducers) {
  CompareThreeRuns("dispatch copy", {"hsa_busy", "-n", "2000", "-t", "4", "-q", "2"});
}

TEST_P(OtherToolIn, BothRecordPacketsWithoutSignals) {
  CompareThreeRuns("dispatch", {"hsa_busy", "-n", "3000", "-t", "2", "--plain"});
}

TEST_P(OtherToolIn, BothRecordAHipProgram) {
  SKIP_WITHOUT_HIP();
  CompareThreeRuns("dispatch copy", {"hip_busy", "-n", "1500", "-t", "3"});
}

TEST_P(OtherToolIn, ATracerOfCallsSeesNoneOfOurs) {
  CompareThreeRuns("dispatch copy calls", {"hsa_dispatch", "-n", "300", "-q", "2",
                                           "--copies", "4", "--kernel-signal", "last"});
}

TEST_P(OtherToolIn, AToolThatHasNotStartedYet) {
  CompareThreeRuns("dispatch copy stopped",
                   {"hsa_busy", "-n", "2000", "--copies", "10"});
}

// The usual case: PyTorch's profiler is there and does nothing.
TEST_P(OtherToolIn, AToolThatTracesNothing) {
  CompareThreeRuns("idle", {"hsa_busy", "-n", "2000", "--copies", "10"});
}

// Below interposition, no doorbell of the collector's intercept queue would be rung.
TEST_P(OtherToolIn, BothRecordIfInterceptQueuesAreRequested) {
  CompareThreeRuns("dispatch copy", {"hsa_busy", "-n", "1000", "-t", "2"},
                   {"--auto", "--capture", "intercept"});
}

// All its dispatches share one signal, so neither knows which one its times are for.
TEST_P(OtherToolIn, TheRuntimeShutsDownAndStartsAgain) {
  constexpr uint64_t kDispatches = 5 * 200;
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  const Outcome both =
      Run("dispatch", GetParam(), {"hsa_reinit", "-r", "5", "-n", "200"},
          {"SIMROCM_RESTARTABLE=1"});
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  ExpectRight(both);
  EXPECT_EQ(both.report.Total("dispatches"), kDispatches);
  EXPECT_EQ(both.report.Total("repeated"), 0u);
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(both.pid);
  EXPECT_EQ(process.dispatches.size(), kDispatches);
  EXPECT_EQ(process.dropped(), 0u);
  EXPECT_EQ(process.account.packets_unseen(), 0u);
}

// The tool keeps starting and stopping while queues are busy.
TEST_P(OtherToolIn, StartsAndStopsOnBusyQueues) {
  const uint64_t switches = Switches(800);
  const std::string words = "dispatch copy switches=" + std::to_string(switches) +
                            " on-usec=300 off-usec=300";
  const std::vector<std::string> program = {"hsa_busy", "-t", "3",       "-q",  "2",
                                            "--copies", "2",  "--until", Done()};
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  const Outcome both = Run(words, GetParam(), program);
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  ExpectRight(both);
  ExpectSound(both.report);
  EXPECT_EQ(both.report.Total("switches"), switches);
  EXPECT_GT(both.report.Total("dispatches"), switches / 10);
  ExpectFullRecord(ReadRecording(watcher.recording()).Process(both.pid), both.program);
}

TEST_P(OtherToolIn, StartsAndStopsInABusyHipProgram) {
  SKIP_WITHOUT_HIP();
  const uint64_t switches = Switches(300);
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  const Outcome both =
      Run("switches=" + std::to_string(switches) + " on-usec=500 off-usec=500",
          GetParam(), {"hip_busy", "-t", "3", "--until", Done()});
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  ExpectRight(both);
  ExpectSound(both.report);
  EXPECT_EQ(both.report.Total("switches"), switches);
  ExpectFullRecord(ReadRecording(watcher.recording()).Process(both.pid), both.program);
}

INSTANTIATE_TEST_SUITE_P(Ways, OtherToolIn,
                         testing::Values(Mode::kIntercept, Mode::kInline), ModeName);

TEST_F(OtherTool, TheReportNamesIt) {
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  const Outcome both = Run("idle", Mode::kIntercept, {"hsa_busy", "-n", "100"});
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  ExpectRight(both);
  const Finished report = Child({ClientPath(), "report", watcher.recording()}).Wait();
  EXPECT_TRUE(report.exited_with(0)) << report.errors;
  EXPECT_THAT(report.output,
              HasSubstr(std::string("another profiler in this process, brought by ") +
                        OTHER_TOOL));
}

// Sessions that need rocprofiler-sdk, which looks for tools only once.
class OtherToolCounters : public OtherTool {
 protected:
  void SetUp() override {
    OtherTool::SetUp();
    const std::string node = directory_.path() + "/nodes/1";
    std::filesystem::create_directories(node);
    std::ofstream(node + "/properties") << "cpu_cores_count 0\nsimd_count 416\n";
  }
  std::vector<std::string> Counting() const {
    return {"--auto", "--kfd-topology", directory_.path(), "--session-wait-msec",
            "10000",  "--pmc",          "SQ_WAVES"};
  }
  // Expects all of the program's dispatches, without counters, and the reason for that.
  static void ExpectRefused(const RecordedProcess& process, const Finished& program,
                            const std::string& why) {
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
        << process.verdict.detail();
    ASSERT_FALSE(process.sessions.empty());
    EXPECT_EQ(process.sessions[0].what(), v1::SessionEvent::REFUSED);
    EXPECT_THAT(process.sessions[0].detail(), HasSubstr(why));
    EXPECT_EQ(process.verdict.collector().backend(), v1::BACKEND_HSA_TOOLS);
    EXPECT_THAT(process.verdict.collector().backend_reason(), HasSubstr(why));
    EXPECT_EQ(static_cast<int64_t>(process.dispatches.size()),
              Reported(program.output, "dispatches"));
    EXPECT_EQ(process.dropped(), 0u);
    EXPECT_TRUE(process.counters.empty());
  }
};

// Nothing makes the SDK look for tools before hsa_init, so it takes both.
TEST_F(OtherToolCounters, AnHsaProgramIsCounted) {
  WatcherProcess watcher(Counting());
  ASSERT_TRUE(watcher.ready());
  const Outcome both = Run("idle", Mode::kIntercept, {"hsa_busy", "-n", "100"});
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  ExpectRight(both);
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(both.pid);
  EXPECT_EQ(process.verdict.collector().backend(), v1::BACKEND_ROCPROFILER_SDK)
      << process.verdict.collector().backend_reason();
  EXPECT_FALSE(process.counters.empty());
}

// HIP 6 makes the SDK look for tools before, with the program's first code object.
TEST_F(OtherToolCounters, AHipProgramCannotBeCounted) {
  SKIP_WITHOUT_HIP();
  const std::vector<std::string> program = {"hip_busy", "-n", "200"};
  const Outcome alone = Run("dispatch copy", Mode::kIntercept, program);
  ExpectRight(alone);
  WatcherProcess watcher(Counting());
  ASSERT_TRUE(watcher.ready());
  const Outcome both = Run("dispatch copy", Mode::kIntercept, program);
  EXPECT_TRUE(watcher.Stop().exited_with(1)) << "every process refused the session";
  ExpectRight(both);
  EXPECT_EQ(both.program.status, alone.program.status);
  ExpectSound(both.report);
  ExpectSame(both.report, alone.report);
  ExpectRefused(ReadRecording(watcher.recording()).Process(both.pid), both.program,
                "rocprofiler-sdk took its tools before hsa_init");
}

// Without another tool, the collector is in time.
TEST_F(OtherToolCounters, AHipProgramAloneIsCounted) {
  SKIP_WITHOUT_HIP();
  WatcherProcess watcher(Counting());
  ASSERT_TRUE(watcher.ready());
  Child child({SimrocmRunPath(), TargetPath("hip_busy"), "-n", "200"});
  EXPECT_TRUE(child.Wait().exited_with(0));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process =
      ReadRecording(watcher.recording()).Process(child.pid());
  EXPECT_EQ(process.verdict.collector().backend(), v1::BACKEND_ROCPROFILER_SDK)
      << process.verdict.collector().backend_reason();
  EXPECT_FALSE(process.counters.empty());
}

TEST_F(OtherToolCounters, ARegisterThatIsSwitchedOff) {
  WatcherProcess watcher(Counting());
  ASSERT_TRUE(watcher.ready());
  Child child({SimrocmRunPath(), TargetPath("hsa_dispatch"), "-n", "20"},
              {.environment = {"ROCPROFILER_REGISTER_ENABLED=0"}});
  const Finished program = child.Wait();
  EXPECT_TRUE(program.exited_with(0)) << program.errors;
  EXPECT_TRUE(watcher.Stop().exited_with(1));
  ExpectRefused(ReadRecording(watcher.recording()).Process(child.pid()), program,
                "ROCPROFILER_REGISTER_ENABLED");
}

// Another library has loaded rocprofiler-register, which the runtime does not know.
TEST_F(OtherToolCounters, ARuntimeThatDoesNotRegister) {
  const std::string libraries =
      std::filesystem::path(SimrocmRunPath()).parent_path() / "lib";
  WatcherProcess watcher(Counting());
  ASSERT_TRUE(watcher.ready());
  Child child(OnSimgpu({"hsa_dispatch", "-n", "20"}),
              {.environment = {"LD_LIBRARY_PATH=" + libraries,
                               "LD_PRELOAD=librocprofiler-register.so.0"}});
  const Finished program = child.Wait();
  EXPECT_TRUE(program.exited_with(0)) << program.errors;
  EXPECT_TRUE(watcher.Stop().exited_with(1));
  ExpectRefused(ReadRecording(watcher.recording()).Process(child.pid()), program,
                "the HSA runtime did not register with rocprofiler-register");
}

}  // namespace
}  // namespace rocattach::testing_support
