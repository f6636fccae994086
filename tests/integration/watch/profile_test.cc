// rocattach profile: the commands of ROCm's compute profiler, on a command and on a
// running process. Counters come from the simulated SDK.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/watch/sessions_fixture.h"
#include "tests/integration/watch/terminal.h"

namespace rocattach::testing_support {
namespace {

using testing::HasSubstr;

class ProfileTest : public SessionsTest {
 protected:
  void SetUp() override {
    SessionsTest::SetUp();
    std::ofstream(directory_.path() + "/nodes/1/properties")
        << "simd_count 416\ngfx_target_version 90010\ndevice_id 29711\n";
  }

  // The command line as a user types it in the test's directory.
  std::vector<std::string> Profile(std::vector<std::string> words) const {
    std::vector<std::string> command = {"env",
                                        "-C",
                                        directory_.path(),
                                        ClientPath(),
                                        "profile",
                                        "--kfd-topology",
                                        directory_.path(),
                                        "--collector",
                                        CollectorPath()};
    command.insert(command.end(), words.begin(), words.end());
    return command;
  }
  std::vector<std::string> OfCommand(std::vector<std::string> words) const {
    std::vector<std::string> command = Profile(std::move(words));
    command.push_back("--");
    for (const std::string& word : OnSimrocm({}, {"hsa_dispatch", "-n", "200"})) {
      command.push_back(word);
    }
    return command;
  }

  // Starts a program that has used the GPU for a while, and goes on until Finish().
  std::unique_ptr<Child> StartBusy() {
    std::filesystem::remove(directory_.path() + "/go");
    std::filesystem::remove(directory_.path() + "/ready");
    auto target = std::make_unique<Child>(
        OnSimgpu({"hip_late", "--until", directory_.path() + "/go", "--ready",
                  directory_.path() + "/ready"}),
        Child::Options{.dies_with_us = true});
    EXPECT_TRUE(Eventually(
        [&] { return std::filesystem::exists(directory_.path() + "/ready"); }));
    return target;
  }
  // Ends the program; expects that it is unharmed.
  void Finish(Child* target) {
    std::ofstream(directory_.path() + "/go").put('\n');
    const Finished end = target->Wait();
    EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
    EXPECT_THAT(end.output, HasSubstr("result=ok"));
    EXPECT_EQ(end.errors, "");
  }

  static std::string Content(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string Workload(const std::string& name) const {
    return directory_.path() + "/workloads/" + name + "/MI210/profile.rwa";
  }
};

TEST_F(ProfileTest, ACommandIsMeasuredInSeveralPasses) {
  const Finished native = RunTarget({"hsa_dispatch", "-n", "200"});
  const Finished end = Child(OfCommand({"-n", "try_live_attach_detach", "-b", "3", "4",
                                        "5.1", "--no-roof", "-VVV"}))
                           .Wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
  EXPECT_TRUE(native.exited_with(0)) << native.output << native.errors;
  EXPECT_EQ(Reported(end.output, "increment"), Reported(native.output, "increment"));
  EXPECT_THAT(end.output, HasSubstr("result=ok"));
  EXPECT_THAT(end.errors, HasSubstr("counters of 200 dispatches were measured"));
  EXPECT_THAT(end.errors, HasSubstr("counter SQ_INSTS_VALU_FMA_F32"));
  const RecordedProcess process =
      ReadRecording(Workload("try_live_attach_detach")).Process("hsa_dispatch");
  EXPECT_EQ(process.dispatches.size(), 200u);
  EXPECT_EQ(process.dropped(), 0u);
  ASSERT_EQ(process.plans.size(), 1u);
  ASSERT_GT(process.plans.begin()->second.architectures_size(), 0);
  EXPECT_GT(process.plans.begin()->second.architectures(0).passes_size(), 1);
  EXPECT_GT(process.counters.size(), 200u);
  // The input of `rocprof-compute analyze`: a row for each counter of a dispatch.
  EXPECT_THAT(end.errors, HasSubstr("rocprof-compute analyze -p workloads/"));
  const std::string folder =
      std::filesystem::path(Workload("try_live_attach_detach")).parent_path();
  std::ifstream rows(folder + "/pmc_perf.csv");
  std::string line;
  std::getline(rows, line);
  EXPECT_THAT(line, HasSubstr("Counter_Name,Counter_Value"));
  std::map<std::string, size_t> counters;  // number for each dispatch
  while (std::getline(rows, line)) {
    if (absl::StrContains(line, "_sum\"")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    ++counters[cells.at(3)];
  }
  size_t count = 0, complete = 0;
  std::set<int> measured;
  for (const auto& value : process.counters) measured.insert(value.counter);
  for (const auto& [dispatch, values] : counters) {
    count += values;
    complete += values == measured.size();
  }
  EXPECT_EQ(counters.size(), 200u);
  EXPECT_GE(count, process.counters.size());
  EXPECT_LE(count, 2 * process.counters.size());
  EXPECT_GT(complete, 0u) << "none has the counters of all passes";
  EXPECT_TRUE(std::filesystem::exists(folder + "/results_pmc_perf.csv.gz"));
  const std::string sysinfo = Content(folder + "/sysinfo.csv");
  EXPECT_THAT(sysinfo, HasSubstr("gfx90a"));
  EXPECT_THAT(sysinfo, HasSubstr("try_live_attach_detach,workloads/"));
  EXPECT_THAT(Content(folder + "/profiling_config.yaml"),
              HasSubstr("iteration_multiplexing: kernel"));
}

// The three metric numbers in the documentation of ROCm's compute profiler: each has
// counters of its own, and all fit into one pass.
TEST_F(ProfileTest, MetricsByNumberTakeOnePass) {
  const Finished end =
      Child(OfCommand({"-n", "metrics", "-b", "3.1.1", "4.1.1", "5.1.1"})).Wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
  const RecordedProcess process =
      ReadRecording(Workload("metrics")).Process("hsa_dispatch");
  ASSERT_EQ(process.plans.size(), 1u);
  ASSERT_EQ(process.plans.begin()->second.architectures_size(), 1);
  EXPECT_EQ(process.plans.begin()->second.architectures(0).passes_size(), 1);
  EXPECT_EQ(process.counters.size(), 5u * 200);
}

TEST_F(ProfileTest, AListWithCommasAndASet) {
  const Finished list =
      Child(OfCommand({"-n", "list", "--block", "3.1.1,5.1.1"})).Wait();
  EXPECT_TRUE(list.exited_with(0)) << list.errors;
  EXPECT_TRUE(std::filesystem::exists(Workload("list")));
  const Finished set = Child(OfCommand({"-n", "set", "--set", "launch_stats", "--path",
                                        directory_.path() + "/elsewhere"}))
                           .Wait();
  EXPECT_TRUE(set.exited_with(0)) << set.errors;
  const RecordedProcess process =
      ReadRecording(directory_.path() + "/elsewhere/profile.rwa")
          .Process("hsa_dispatch");
  EXPECT_EQ(process.counters.size(), 4u * 200);
}

TEST_F(ProfileTest, TheCommandsStatusIsKept) {
  std::vector<std::string> words = Profile({"-n", "status", "--"});
  for (const std::string& word :
       OnSimrocm({}, {"hsa_dispatch", "-n", "8", "--exit", "sigkill"})) {
    words.push_back(word);
  }
  const Finished killed = Child(words).Wait();
  EXPECT_TRUE(killed.exited_with(128 + SIGKILL)) << killed.errors;
  const Finished none = Child(Profile({"-n", "none", "--", "/nonexistent/app"})).Wait();
  EXPECT_TRUE(none.exited_with(127)) << none.errors;
  // The command succeeds, but nothing was recorded.
  const Finished idle = Child(Profile({"-n", "idle", "--", "true"})).Wait();
  EXPECT_TRUE(idle.exited_with(1)) << idle.errors;
  EXPECT_THAT(idle.errors, HasSubstr("no process has used a GPU"));
}

// rocprofiler-sdk can no longer be added to the process. It is recorded, but a lack of
// counters is not a success.
TEST_F(ProfileTest, ARunningProcessSaysWhyItHasNoCounters) {
  const auto target = StartBusy();
  for (const char* name : {"first", "again"}) {
    const Finished end =
        Child(Profile({"-n", name, "--set", "launch_stats", "--no-roof", "-VVV",
                       "--attach-pid", std::to_string(target->pid()),
                       "--attach-duration-msec", "1000"}))
            .Wait();
    EXPECT_TRUE(end.exited_with(1)) << end.output << end.errors;
    EXPECT_THAT(end.errors, HasSubstr("session refused"));
    EXPECT_THAT(
        end.errors,
        HasSubstr("rocprofiler-sdk is loaded when a process starts its runtime; "
                  "this one was attached to later"));
    EXPECT_THAT(end.errors, HasSubstr("no counters were measured"));
    const RecordedProcess process = ReadRecording(Workload(name)).Process("hip_late");
    EXPECT_GT(process.dispatches.size(), 0u);
    EXPECT_EQ(process.dropped(), 0u);
    EXPECT_EQ(process.end.how(), v1::ProcessEnd::STILL_RUNNING);
  }
  Finish(target.get());
}

// Before the process first uses the GPU, the SDK can still be loaded.
TEST_F(ProfileTest, AProcessThatIsWaitedForHasCounters) {
  const std::string go = directory_.path() + "/go";
  Child target(OnSimrocm({}, {"hsa_dispatch", "-n", "200", "--wait-file", go}),
               {.dies_with_us = true});
  std::vector<std::string> command =
      Profile({"-n", "waited", "-b", "3.1.1", "4.1.1", "5.1.1", "--wait",
               "--attach-pid", std::to_string(target.pid())});
  // The command's messages can be read as they come.
  command.insert(command.begin(), {"bash", "-c", "exec \"$0\" \"$@\" 2>&1"});
  Child profile(command, {.dies_with_us = true});
  ASSERT_TRUE(Eventually([&] {
    return absl::StrContains(profile.PollOutput(), "waiting until it does");
  })) << profile.PollOutput();
  std::ofstream(go).put('\n');
  const Finished end = target.Wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
  EXPECT_THAT(end.output, HasSubstr("result=ok"));
  const Finished profiled = profile.Wait();
  EXPECT_TRUE(profiled.exited_with(0)) << profiled.output;
  EXPECT_THAT(profiled.output, HasSubstr("counters of 200 dispatches were measured"));
  const RecordedProcess process =
      ReadRecording(Workload("waited")).Process("hsa_dispatch");
  EXPECT_EQ(process.dispatches.size(), 200u);
  EXPECT_GT(process.counters.size(), 200u);
}

TEST_F(ProfileTest, EnterAndCtrlCDetach) {
  const auto target = StartBusy();
  for (const char* key : {"\n", "\x03"}) {
    Terminal terminal(
        Profile({"-n", "keys", "-b", "3.1.1", "4.1.1", "5.1.1", "--no-roof", "-VVV",
                 "--attach-pid", std::to_string(target->pid())}));
    terminal.ReadUntil("attached to process");
    terminal.Type(key);
    const int status = terminal.Wait();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << terminal.seen();
    EXPECT_THAT(terminal.seen(), HasSubstr("press Enter or Ctrl-C to detach"));
    EXPECT_THAT(terminal.seen(), HasSubstr("recorded in workloads/keys/MI210/"));
  }
  Finish(target.get());
}

struct UsageCase {
  const char* name;
  std::vector<std::string> words;
  const char* message;
};
class ProfileUsageTest : public ProfileTest,
                         public testing::WithParamInterface<UsageCase> {};

TEST_P(ProfileUsageTest, IsOneClearLine) {
  const Finished end = Child(Profile(GetParam().words)).Wait();
  EXPECT_TRUE(end.exited_with(2)) << end.errors;
  EXPECT_THAT(end.errors, HasSubstr(GetParam().message));
  EXPECT_FALSE(std::filesystem::exists(directory_.path() + "/workloads"));
}

INSTANTIATE_TEST_SUITE_P(
    Usage, ProfileUsageTest,
    testing::Values(
        UsageCase{"NoName", {"-b", "2", "--", "true"}, "give it one with -n NAME"},
        UsageCase{"Path", {"-n", "../x", "--", "true"}, "must not contain '/'"},
        UsageCase{"Nothing", {"-n", "x", "-b", "2"}, "give --attach-pid PID"},
        UsageCase{
            "Both", {"-n", "x", "--attach-pid", "1", "--", "true"}, "one of them"},
        UsageCase{"Block", {"-n", "x", "-b", "99.1.1", "--", "true"}, "99.1.1"},
        UsageCase{
            "Set", {"-n", "x", "--set", "launch_stat", "--", "true"}, "launch_stats"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace rocattach::testing_support
