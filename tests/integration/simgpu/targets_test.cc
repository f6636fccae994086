// Every test program on the simulated GPU ends as it should, and the simulator has run
// exactly the dispatches and copies that the program reports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/integration/simgpu/run_program.h"
#include "tests/places.h"

namespace rocattach {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string Target(const std::string& name) {
  return std::string(TARGETS_DIRECTORY "/") + name;
}

// The simulator's counts, summed over the processes of one run.
struct Statistics {
  uint64_t processes = 0, dispatches = 0, copies = 0, unrung = 0;
};

class SimgpuTargets : public testing::Test {
 protected:
  SimgpuTargets() {
    char path[] = "/tmp/simgpu_targets_test.XXXXXX";
    int fd = mkstemp(path);
    EXPECT_GE(fd, 0);
    close(fd);
    statistics_path_ = path;
  }
  ~SimgpuTargets() override { unlink(statistics_path_.c_str()); }

  // Runs a target ("name option …") under simgpu-run.
  ProgramResult Run(const std::string& command,
                    std::vector<std::string> simgpu_options = {},
                    const std::map<std::string, std::string>& environment = {}) {
    std::ofstream(statistics_path_, std::ios::trunc);
    std::vector<std::string> arguments = {SIMGPU_RUN, "--stats", statistics_path_};
    arguments.insert(arguments.end(), simgpu_options.begin(), simgpu_options.end());
    std::istringstream words(command);
    std::string word;
    for (bool first = true; words >> word; first = false) {
      arguments.push_back(first && word.find('/') == std::string::npos ? Target(word)
                                                                       : word);
    }
    ProgramResult result = RunProgram(arguments, environment);
    fields_ = LastLineFields(result.output);
    return result;
  }

  Statistics ReadStatistics() {
    Statistics sum;
    std::ifstream lines(statistics_path_);
    std::string line;
    while (std::getline(lines, line)) {
      int pid;
      unsigned long long dispatches, copies, unrung;
      if (sscanf(line.c_str(), "pid=%d dispatches=%llu copies=%llu unrung=%llu", &pid,
                 &dispatches, &copies, &unrung) != 4) {
        ADD_FAILURE() << line;
        continue;
      }
      sum.processes++;
      sum.dispatches += dispatches;
      sum.copies += copies;
      sum.unrung += unrung;
    }
    return sum;
  }

  uint64_t Field(const std::string& name) {
    return fields_.count(name) ? strtoull(fields_[name].c_str(), nullptr, 10)
                               : UINT64_MAX;
  }

  // Runs a target that must succeed. `uploads`: dispatches that the HSA runtime makes
  // to load code objects. `dispatches`: the number that the program must print.
  void ExpectRun(const std::string& command, uint64_t dispatches, uint64_t copies,
                 uint64_t uploads, std::vector<std::string> simgpu_options = {}) {
    SCOPED_TRACE(command);
    ProgramResult result = Run(command, simgpu_options);
    EXPECT_EQ(result.exit_status, 0) << result.output << result.errors;
    EXPECT_EQ(fields_["result"], "ok") << result.output << result.errors;
    EXPECT_EQ(Field("dispatches"), dispatches) << result.output;
    EXPECT_EQ(Field("copies"), copies) << result.output;
    Statistics statistics = ReadStatistics();
    uint64_t by_runtime =
        fields_.count("runtime_dispatches") ? Field("runtime_dispatches") : 0;
    EXPECT_EQ(statistics.dispatches, dispatches + by_runtime + uploads);
    EXPECT_EQ(statistics.copies, copies);
  }

  std::map<std::string, std::string> fields_;
  std::string statistics_path_;
};

TEST_F(SimgpuTargets, HsaDispatchOnBothArchitectures) {
  ExpectRun("hsa_dispatch", 1000, 0, 1);
  ExpectRun("hsa_dispatch --copies 6", 1000, 6, 1, {"--arch", "gfx906"});
  EXPECT_EQ(Field("bytes"), 6u * 65536);
  EXPECT_EQ(Field("increment"), 750u);
  EXPECT_EQ(Field("accumulate"), 250u);
}

TEST_F(SimgpuTargets, HsaDispatchByThreadsAndQueues) {
  ExpectRun("hsa_dispatch -n 3001 -t 3 -q 2 --kernel-signal each", 3001, 0, 1);
  ExpectRun("hsa_dispatch -n 3001 -t 2 -q 3 --kernel-signal last", 3001, 0, 1);
  ExpectRun("hsa_dispatch -n 3001 -t 4 -q 1 --kernel-signal none", 3001, 0, 1);
  ExpectRun("hsa_dispatch -n 300 --sync --rounds 3", 900, 0, 1);
}

TEST_F(SimgpuTargets, DoorbellsOfOneProducerAreNeverMissed) {
  ExpectRun("hsa_dispatch -n 5000 --kernel-signal each", 5000, 0, 1);
  EXPECT_EQ(ReadStatistics().unrung, 0u);
}

TEST_F(SimgpuTargets, KernelTimesFromNoneToLong) {
  ExpectRun("hsa_dispatch -n 5000", 5000, 0, 1, {"--kernel-ns", "0"});
  ExpectRun("hsa_dispatch -n 5", 5, 0, 1, {"--kernel-ns", "20000000"});
}

TEST_F(SimgpuTargets, EveryWayToEnd) {
  for (const char* how : {"shutdown", "return", "exit"}) {
    ExpectRun(std::string("hsa_dispatch -n 50 --exit ") + how, 50, 0, 1);
    ExpectRun(std::string("hsa_exit_early ") + how, 0, 0, 0);
  }
  // These two leave no statistics behind.
  for (const char* program : {"hsa_dispatch -n 50 --exit ", "hsa_exit_early "}) {
    ProgramResult result = Run(std::string(program) + "_exit");
    EXPECT_EQ(result.exit_status, 0) << result.errors;
    EXPECT_EQ(fields_["result"], "ok");
    result = Run(std::string(program) + "sigkill");
    EXPECT_EQ(result.signal, SIGKILL) << result.errors;
    EXPECT_EQ(fields_["result"], "ok");
  }
}

TEST_F(SimgpuTargets, ThreadsThatInitialiseTogether) {
  ProgramResult result = Run("hsa_init_threads -t 8 -n 10");
  EXPECT_EQ(result.exit_status, 0) << result.errors;
  EXPECT_EQ(Field("dispatches"), 80u);
  EXPECT_EQ(fields_["result"], "ok");
}

TEST_F(SimgpuTargets, InitialisedAgain) {
  ExpectRun("hsa_reinit -r 4 -n 25", 100, 0, 4);
}

TEST_F(SimgpuTargets, Forks) {
  ExpectRun("fork_then_init -c 4 -n 100", 400, 0, 4);
  EXPECT_EQ(ReadStatistics().processes, 4u);
  for (const char* child : {"exit", "_exit", "exec"}) {
    ExpectRun(std::string("init_then_fork -n 50 --child ") + child, 150, 0, 3);
    EXPECT_EQ(ReadStatistics().processes, 1u);
  }
  ExpectRun("init_then_fork -n 50 --child gpu", 150, 0, 3);
  EXPECT_EQ(ReadStatistics().processes, 2u);
}

TEST_F(SimgpuTargets, ExecsOfOneGpuProgramByAnother) {
  ProgramResult result = Run("exec_chain -n 50");
  EXPECT_EQ(result.exit_status, 0) << result.errors;
  EXPECT_THAT(result.output, AllOf(HasSubstr("dispatches=50 "), HasSubstr("=1000 ")));
  EXPECT_EQ(fields_["result"], "ok");
}

TEST_F(SimgpuTargets, ChildrensEnvironment) {
  ExpectRun("child_environment", 10, 0, 1);
  EXPECT_EQ(fields_["tool_variables"], "unset");
  ProgramResult result = RunProgram({Target("env_print"), "A", "B"}, {{"A", "x y"}});
  EXPECT_EQ(result.output, "A=x y\nB unset\n");
}

TEST_F(SimgpuTargets, PythonThatLoadsTheRuntimeLate) {
  if (RunProgram({"python3", "--version"}).exit_status != 0)
    GTEST_SKIP() << "no python3";
  ExpectRun("late_python.py -n 300", 300, 0, 1);
  ExpectRun("late_python.py -n 3 --shutdown", 3, 0, 1, {"--arch", "gfx906"});
}

TEST_F(SimgpuTargets, SeveralGpus) {
  ExpectRun("hsa_dispatch -n 100 --copies 2", 100, 2, 1, {"--count", "8"});
}

TEST_F(SimgpuTargets, WrongOptionsAreNamed) {
  ProgramResult result = Run("hsa_exit_early", {"--arch", "gfx999"});
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.errors, HasSubstr("SIMGPU_ARCH=gfx999"));
  EXPECT_EQ(RunProgram({SIMGPU_RUN, "--nonsense"}).exit_status, 2);
  EXPECT_EQ(RunProgram({SIMGPU_RUN}).exit_status, 2);
  result = RunProgram({SIMGPU_RUN, "/nonexistent/program"});
  EXPECT_EQ(result.exit_status, 127);
  EXPECT_THAT(result.errors, HasSubstr("/nonexistent/program"));
  result = RunProgram({SIMGPU_RUN, "--help"});
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_THAT(result.output, HasSubstr("--kernel-ns"));
}

TEST_F(SimgpuTargets, PassesTheCommandsStatusOn) {
  EXPECT_EQ(RunProgram({SIMGPU_RUN, "sh", "-c", "exit 42"}).exit_status, 42);
}

TEST_F(SimgpuTargets, Rocminfo) {
  if (access("/usr/bin/rocminfo", X_OK) != 0)
    GTEST_SKIP() << "rocminfo is not installed";
  ProgramResult result = Run("/usr/bin/rocminfo", {"--count", "2"});
  EXPECT_EQ(result.exit_status, 0) << result.output << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("gfx90a"), HasSubstr("Agent 3"),
                    HasSubstr("Simulated AMD Instinct MI210"),
                    HasSubstr("amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-")));
}

#ifdef HAVE_HIP
// Two code objects: the program's, and that of HIP's own kernels.
constexpr uint64_t kHipUploads = 2;

TEST_F(SimgpuTargets, HipVectorAddOnBothArchitectures) {
  ExpectRun("hip_vector_add -n 1000 -t 2", 1000, 6, kHipUploads);
  ExpectRun("hip_vector_add -n 100 -s 500000", 100, 3, kHipUploads,
            {"--arch", "gfx906"});
}

TEST_F(SimgpuTargets, HipPipeline) {
  ExpectRun("hip_pipeline", 60, 60, kHipUploads);
  ExpectRun("hip_pipeline -n 30 -t 4 --streams 2", 360, 360, kHipUploads);
}

TEST_F(SimgpuTargets, HipOnSeveralGpus) {
  ExpectRun("hip_vector_add -n 100", 100, 3, kHipUploads, {"--count", "2"});
}

TEST_F(SimgpuTargets, HipForks) {
  ExpectRun("hip_init_then_fork exec", 200, 0, kHipUploads);
  // In a child that ends through exit() the runtime's destructors run. libhsakmt
  // refuses to release the parent's resources, and Debian's runtime, built with
  // assertions, aborts. The parent runs on.
  const ProgramResult result = Run("hip_init_then_fork exit");
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(fields_["result"], "wrong");
  EXPECT_THAT(result.errors, HasSubstr("FreeKfdMemory"));
  EXPECT_EQ(ReadStatistics().dispatches, 200 + kHipUploads);
}

// Threads whose streams share a queue ring its doorbell out of order; lost wake-ups and
// doorbells would show as a run that never ends. SIMGPU_STRESS_RUNS sets how many run.
TEST_F(SimgpuTargets, HipLaunchesBySixThreadsAgainAndAgain) {
  const char* wanted = getenv("SIMGPU_STRESS_RUNS");
  const int runs = wanted != nullptr ? atoi(wanted) : 6;
  for (int i = 0; i < runs; i++) {
    ExpectRun("hip_launch_rate -n 2000 -t 6", 12006, 0, kHipUploads,
              {"--kernel-ns", i % 2 == 0 ? "0" : "5000"});
    ExpectRun("hip_launch_rate -n 200 -t 6 --sync", 1206, 0, kHipUploads);
    if (HasFailure()) return;
  }
}
#endif

}  // namespace
}  // namespace rocattach
