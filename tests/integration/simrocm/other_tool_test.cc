// A profiler that is already in a process, and the three ways in which the simulated
// SDK sees queues for it. The collector takes no part: these are the simulation's own
// tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/integration/simrocm/other_tool_report.h"
#include "tests/integration/simrocm/simrocm_session.h"
#include "tests/temporary_directory.h"

namespace rocattach {
namespace {

using testing::HasSubstr;
using testing::Not;

// Ways in which the SDK sees queues.
enum class Mode { kIntercept, kInline, kInlineSwitchedOff };

std::string ModeName(const testing::TestParamInfo<Mode>& info) {
  return info.param == Mode::kIntercept ? "intercept_queues"
         : info.param == Mode::kInline  ? "inline_interposition"
                                        : "inline_interposition_switched_off";
}

struct Outcome {
  ProgramResult program;
  std::map<std::string, std::string> printed;
  OtherToolReport report;
  std::string log;
};

class OtherTool : public testing::Test {
 protected:
  // Runs the program with the tool preloaded, as PyTorch brings it along.
  Outcome RunWith(const std::string& words, Mode mode, std::vector<std::string> program,
                  std::map<std::string, std::string> environment = {}) {
    std::vector<std::string> command = {SIMROCM_RUN, "--preload", OTHER_TOOL, "--log",
                                        folder_ / "log"};
    if (mode != Mode::kIntercept) command.push_back("--interposition");
    if (mode == Mode::kInlineSwitchedOff) {
      environment["ROCPROFILER_QUEUE_INTERPOSITION"] = "0";
    }
    command.insert(command.end(), program.begin(), program.end());
    environment["OTHER_TOOL"] = words;
    environment["OTHER_TOOL_OUTPUT"] = folder_ / "report";
    environment["OTHER_TOOL_DONE"] = Done();
    Outcome run;
    run.program = RunProgram(command, environment);
    run.printed = LastLineFields(run.program.output);
    run.report = ReadOtherToolReport(folder_ / "report");
    std::ostringstream log;
    log << std::ifstream(folder_ / "log").rdbuf();
    run.log = log.str();
    return run;
  }

  std::string Done() const { return folder_ / "done"; }

  const testing_support::TemporaryDirectory folder_;
};

void ExpectRight(const Outcome& run) {
  ASSERT_EQ(run.program.exit_status, 0) << run.program.errors << run.program.output;
  EXPECT_EQ(run.program.errors, "");
  ASSERT_EQ(run.printed.at("result"), "ok");
  EXPECT_TRUE(run.report.complete);
  EXPECT_EQ(run.report.Total("dropped"), 0u);
  EXPECT_EQ(run.report.Total("repeated"), 0u);
  EXPECT_EQ(run.report.Total("unordered"), 0u);
}

class OtherToolIn : public OtherTool, public testing::WithParamInterface<Mode> {};

// Expects every operation that the program made in the report, by queue, with times.
void ExpectWhole(const Outcome& run) {
  ExpectRight(run);
  const uint64_t made = std::stoull(run.printed.at("dispatches"));
  const uint64_t copies = std::stoull(run.printed.at("copies"));
  EXPECT_EQ(run.report.Total("dispatches"), made);
  EXPECT_EQ(run.report.TimedDispatches(), made);
  EXPECT_EQ(run.report.Total("copies"), copies);
  EXPECT_EQ(run.report.TimedCopies(), copies);
  for (const auto& [key, sums] : run.report.dispatches) {
    EXPECT_NEAR(static_cast<double>(sums.ns) / static_cast<double>(sums.count), 5000,
                200);
  }
  uint64_t bytes = 0;
  for (const auto& [direction, sums] : run.report.copies) bytes += sums.bytes;
  EXPECT_EQ(bytes, std::stoull(run.printed.at("bytes")));
}

TEST_P(OtherToolIn, RecordsAPlainProgram) {
  const Outcome run =
      RunWith("dispatch copy", GetParam(),
              {HSA_BUSY, "-n", "1500", "-t", "3", "-q", "2", "--copies", "20"});
  ExpectWhole(run);
  EXPECT_EQ(run.report.dispatches.size(), 2u) << "two queues";
}

TEST_P(OtherToolIn, RecordsAHipProgram) {
  if (std::string(HIP_BUSY).empty()) GTEST_SKIP() << "no hipcc";
  ExpectWhole(
      RunWith("dispatch copy", GetParam(), {HIP_BUSY, "-n", "1000", "-t", "3"}));
}

TEST_P(OtherToolIn, StartsAndStopsOnBusyQueues) {
  const Outcome run =
      RunWith("dispatch copy switches=600 on-usec=300 off-usec=300", GetParam(),
              {HSA_BUSY, "-t", "3", "-q", "2", "--copies", "2", "--until", Done()});
  ExpectRight(run);
  EXPECT_EQ(run.report.Total("switches"), 600u);
  const uint64_t recorded = run.report.Total("dispatches");
  EXPECT_GT(recorded, 100u);
  EXPECT_LE(recorded, std::stoull(run.printed.at("dispatches")));
  EXPECT_EQ(run.report.TimedDispatches(), recorded);
  EXPECT_EQ(run.report.TimedCopies(), run.report.Total("copies"));
}

TEST_P(OtherToolIn, StartsAndStopsInAHipProgram) {
  if (std::string(HIP_BUSY).empty()) GTEST_SKIP() << "no hipcc";
  const Outcome run = RunWith("switches=300 on-usec=500 off-usec=500", GetParam(),
                              {HIP_BUSY, "-t", "3", "--until", Done()});
  ExpectRight(run);
  EXPECT_EQ(run.report.Total("switches"), 300u);
  EXPECT_GT(run.report.Total("dispatches"), 100u);
  EXPECT_EQ(run.report.TimedDispatches(), run.report.Total("dispatches"));
}

INSTANTIATE_TEST_SUITE_P(Ways, OtherToolIn,
                         testing::Values(Mode::kIntercept, Mode::kInline,
                                         Mode::kInlineSwitchedOff),
                         ModeName);

// Parses lines like "name before=1 seen=2 …".
std::vector<std::map<std::string, uint64_t>> Indices(const std::string& output) {
  std::vector<std::map<std::string, uint64_t>> lines;
  std::istringstream stream(output);
  for (std::string line; std::getline(stream, line);) {
    if (line.find("before=") == std::string::npos) continue;
    auto& fields = lines.emplace_back();
    for (const auto& [name, value] : LastLineFields(line + "\n")) {
      fields[name] = std::stoull(value);
    }
  }
  return lines;
}

TEST_F(OtherTool, InterpositionMovesTheRealIndexOnlyAtTheDoorbell) {
  const Outcome run = RunWith("dispatch", Mode::kInline, {WRITE_INDEX});
  ExpectRight(run);
  EXPECT_EQ(run.printed.at("doorbell"), "hardware");
  const auto lines = Indices(run.program.output);
  ASSERT_EQ(lines.size(), 12u);
  for (uint64_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].at("before"), i);
    EXPECT_EQ(lines[i].at("seen"), i + 1) << "the application's own";
    EXPECT_EQ(lines[i].at("real"), i) << "the GPU knows nothing of it yet";
    EXPECT_EQ(lines[i].at("after"), i + 1);
    EXPECT_EQ(lines[i].at("read"), i + 1);
  }
  EXPECT_EQ(run.report.Total("dispatches"), 12u);
}

TEST_F(OtherTool, InterpositionHandsCallsOnWhileNothingIsTraced) {
  const Outcome run = RunWith("dispatch stopped", Mode::kInline, {WRITE_INDEX});
  ExpectRight(run);
  for (const auto& line : Indices(run.program.output)) {
    EXPECT_EQ(line.at("real"), line.at("seen"));
  }
  EXPECT_EQ(run.report.Total("dispatches"), 0u);
  EXPECT_THAT(run.log, Not(HasSubstr("sdk.queue_interposition active=1")));
}

TEST_F(OtherTool, InterceptQueuesHaveSoftwareDoorbells) {
  for (Mode mode : {Mode::kIntercept, Mode::kInlineSwitchedOff}) {
    // Even if tracing was never started.
    const Outcome run = RunWith("dispatch stopped", mode, {WRITE_INDEX});
    ExpectRight(run);
    EXPECT_EQ(run.printed.at("doorbell"), "user");
    EXPECT_EQ(run.printed.at("queue_ptr"), "0");
  }
}

TEST_F(OtherTool, AnIdleClientLeavesQueuesAlone) {
  const Outcome run = RunWith("idle", Mode::kIntercept, {WRITE_INDEX});
  ExpectRight(run);
  EXPECT_EQ(run.printed.at("doorbell"), "hardware");
  EXPECT_EQ(run.report.Total("dispatches"), 0u);
}

// A runtime that has loaded the SDK does not load tools of HSA, unless a variable tells
// it to.
TEST_F(OtherTool, KeepsHsaToolsOut) {
  Outcome run = RunWith("idle", Mode::kIntercept, {WRITE_INDEX},
                        {{"HSA_TOOLS_LIB", "/no/such/tool.so"}});
  ExpectRight(run);
  EXPECT_THAT(run.log, HasSubstr("bridge.tools_skipped list=\"/no/such/tool.so\""));
  EXPECT_THAT(run.log, HasSubstr("tool.configure from=symbol"));
  run = RunWith(
      "idle", Mode::kIntercept, {WRITE_INDEX},
      {{"HSA_TOOLS_LIB", "/no/such/tool.so"}, {"HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1"}});
  ExpectRight(run);
  EXPECT_THAT(run.log, HasSubstr("bridge.tool name=/no/such/tool.so loaded=0"));
}

}  // namespace
}  // namespace rocattach
