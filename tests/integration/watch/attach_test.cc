// Attaching with the real kernel and the real HSA runtime: every way in which programs
// start, use and end the runtime.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>

#include "tests/integration/watch/harness.h"
#include "tests/places.h"
#include "tests/temporary_directory.h"

namespace rocattach::testing_support {
namespace {

class AttachTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }
};

// Expects everything that must be true of a process that was recorded completely.
void ExpectFullRecord(const RecordedProcess& process, int64_t dispatches,
                      int64_t copies) {
  EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
      << process.verdict.detail();
  EXPECT_EQ(static_cast<int64_t>(process.dispatches.size()), dispatches);
  EXPECT_EQ(static_cast<int64_t>(process.copies.size()), copies);
  EXPECT_EQ(process.dropped(), 0u);
  EXPECT_EQ(process.account.packets_unseen(), 0u);
  EXPECT_EQ(process.account.dispatches_seen() + process.account.copies_seen(),
            static_cast<uint64_t>(dispatches + copies));
  std::set<uint64_t> operations;
  for (const auto& d : process.dispatches)
    EXPECT_TRUE(operations.insert(d.correlation_id).second);
  for (const auto& c : process.copies)
    EXPECT_TRUE(operations.insert(c.correlation_id).second);
  EXPECT_TRUE(process.ended);
}

TEST_F(AttachTest, RecordsDispatchesAndCopiesOfAProgram) {
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimgpu({"hsa_dispatch", "-n", "400", "--copies", "8"}),
               {.environment = {"SIMGPU_KERNEL_NS=20000"}});
  pid_t pid = target.pid();
  Finished result = target.Wait();
  ASSERT_TRUE(result.exited_with(0)) << result.output << result.errors;
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  Recording recording = ReadRecording(watcher.recording());
  EXPECT_TRUE(recording.ended);
  EXPECT_TRUE(recording.damage.empty());
  const RecordedProcess process = recording.Process(pid);
  ExpectFullRecord(process, Reported(result.output, "dispatches"),
                   Reported(result.output, "copies"));
  EXPECT_EQ(process.end.how(), v1::ProcessEnd::EXITED);
  EXPECT_GT(process.verdict.hit_ns(), 0u);
  EXPECT_LE(process.verdict.hit_ns(), process.verdict.stopped_ns());
  EXPECT_LE(process.verdict.stopped_ns(), process.verdict.released_ns());
  EXPECT_LE(process.verdict.released_ns(), process.verdict.armed_ns());

  std::map<std::string, int64_t> by_name;
  for (const rocattach_dispatch& d : process.dispatches) {
    ASSERT_TRUE(process.kernels.contains(d.kernel_id));
    ++by_name[process.kernels.at(d.kernel_id).name()];
    EXPECT_GE(d.start_ns, process.verdict.armed_ns());
    EXPECT_GE(d.start_ns + 1000, d.enqueue_ns) << "clocks are related";
    EXPECT_LE(d.end_ns, process.end.time_ns());
    // The times come from the GPU's own clock: each kernel lasts as long as was set.
    EXPECT_NEAR(static_cast<double>(d.end_ns - d.start_ns), 20000, 400);
    EXPECT_GT(d.workgroup_x, 0);
  }
  EXPECT_EQ(process.account.untimed(), 0u);
  EXPECT_EQ(by_name.size(), 2u);
  EXPECT_EQ(by_name["increment"], Reported(result.output, "increment"));
  EXPECT_EQ(by_name["accumulate"], Reported(result.output, "accumulate"));
  uint64_t bytes = 0;
  std::set<uint16_t> directions;
  for (const rocattach_copy& c : process.copies) {
    bytes += c.bytes;
    directions.insert(c.direction);
    EXPECT_LT(c.start_ns, c.end_ns);
  }
  EXPECT_EQ(static_cast<int64_t>(bytes), Reported(result.output, "bytes"));
  EXPECT_TRUE(directions.contains(ROCATTACH_COPY_HOST_TO_DEVICE));
  EXPECT_TRUE(directions.contains(ROCATTACH_COPY_DEVICE_TO_HOST));
}

struct EndCase {
  const char* how;
  const char* signals;
  v1::ProcessEnd::How end;
};

class EndTest : public AttachTest, public testing::WithParamInterface<EndCase> {};

// Nothing is lost, however the program ends and whoever owns completion signals.
TEST_P(EndTest, NothingIsLost) {
  if (IsSkipped() || HasFatalFailure()) return;
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  Child target(
      OnSimgpu({"hsa_dispatch", "-n", "1500", "-t", "3", "-q", "2", "--copies", "6",
                "--kernel-signal", GetParam().signals, "--exit", GetParam().how}));
  pid_t pid = target.pid();
  Finished result = target.Wait();
  watcher.Stop();
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  ExpectFullRecord(process, Reported(result.output, "dispatches"),
                   Reported(result.output, "copies"));
  EXPECT_EQ(process.end.how(), GetParam().end);
  EXPECT_EQ(process.end.signal(),
            GetParam().end == v1::ProcessEnd::SIGNALLED ? 9u : 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Ends, EndTest,
    testing::Values(EndCase{"shutdown", "each", v1::ProcessEnd::EXITED},
                    EndCase{"return", "last", v1::ProcessEnd::EXITED},
                    EndCase{"exit", "none", v1::ProcessEnd::EXITED},
                    EndCase{"atexit", "each", v1::ProcessEnd::EXITED},
                    EndCase{"atexit", "none", v1::ProcessEnd::EXITED},
                    EndCase{"_exit", "each", v1::ProcessEnd::EXITED},
                    EndCase{"_exit", "none", v1::ProcessEnd::EXITED},
                    EndCase{"sigkill", "each", v1::ProcessEnd::SIGNALLED},
                    EndCase{"sigkill", "none", v1::ProcessEnd::SIGNALLED}),
    [](const auto& test) {
      std::string name = std::string(test.param.how) + "_" + test.param.signals;
      return name[0] == '_' ? "now" + name : name;
    });

// Descriptions that the service adds itself: names of threads, and the driver's
// properties of GPUs.
TEST_F(AttachTest, ThreadsAndGpusAreDescribed) {
  const TemporaryDirectory topology;
  const std::string node = topology / "nodes/1";
  std::filesystem::create_directories(node);
  // The simulated GPU's address is 03:00.0.
  std::ofstream(node + "/properties") << "simd_count 416\nlocation_id 768\n";
  std::ofstream(node + "/name") << "aldebaran\n";
  WatcherProcess watcher({"--auto", "--kfd-topology", topology.path()});
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimgpu({"hsa_busy", "-n", "750", "--rate", "500"}));
  const pid_t pid = target.pid();
  EXPECT_TRUE(target.Wait().exited_with(0));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  ASSERT_FALSE(process.dispatches.empty());
  for (const rocattach_dispatch& dispatch : process.dispatches) {
    ASSERT_EQ(process.threads.count(dispatch.tid), 1u) << dispatch.tid;
    EXPECT_EQ(process.threads.at(dispatch.tid), "hsa_busy");
  }
  EXPECT_GE(process.threads.size(), 2u);
  int described = 0;
  for (const auto& [id, agent] : process.agents) {
    if (agent.properties_size() == 0) continue;
    ++described;
    EXPECT_EQ(agent.type(), v1::AGENT_TYPE_GPU);
    EXPECT_EQ(agent.node_id(), 1u);
    EXPECT_EQ(agent.model_name(), "aldebaran");
    EXPECT_EQ(agent.properties(0).name(), "simd_count");
    EXPECT_EQ(agent.properties(0).value(), 416u);
    // The limits that the runtime reports.
    EXPECT_EQ(agent.workgroup_max_size(), 1024u);
    ASSERT_EQ(agent.workgroup_max_dimensions_size(), 3);
    EXPECT_EQ(agent.workgroup_max_dimensions(0), 1024u);
    ASSERT_EQ(agent.grid_max_dimensions_size(), 3);
    EXPECT_GT(agent.grid_max_size(), 1u << 30);
  }
  EXPECT_EQ(described, 1);
}

TEST_F(AttachTest, KilledInTheMiddleOfItsWork) {
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimgpu({"hsa_dispatch", "-n", "100000000", "-t", "2"}));
  pid_t pid = target.pid();
  EXPECT_TRUE(Eventually([&] {
    std::error_code error;
    const uintmax_t bytes = std::filesystem::file_size(watcher.recording(), error);
    return !error && bytes > (256u << 10);
  }));
  target.Signal(SIGKILL);
  Finished result = target.Wait();
  EXPECT_TRUE(WIFSIGNALED(result.status));
  watcher.Stop();
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED);
  EXPECT_GT(process.dispatches.size(), 1000u);
  EXPECT_EQ(process.end.how(), v1::ProcessEnd::SIGNALLED);
  EXPECT_EQ(process.end.signal(), 9u);
  EXPECT_EQ(process.account.dispatches_seen() + process.account.copies_seen(),
            process.dispatches.size() + process.copies.size() + process.dropped());
  // At the instant of death each of the two threads may have been inside a capture.
  EXPECT_LE(process.account.dropped_inflight(), 2u);
}

TEST_F(AttachTest, EightThreadsInitialiseAtOnce) {
  WatcherProcess watcher({"--auto"});
  Child target(OnSimgpu({"hsa_init_threads"}));
  pid_t pid = target.pid();
  Finished result = target.Wait();
  ASSERT_TRUE(result.exited_with(0)) << result.output << result.errors;
  watcher.Stop();
  Recording recording = ReadRecording(watcher.recording());
  const RecordedProcess process = recording.Process(pid);
  ExpectFullRecord(process, Reported(result.output, "dispatches"), 0);
  EXPECT_EQ(recording.summary->windows_attached(), 1u) << "one window a process";
}

TEST_F(AttachTest, ShutDownAndInitialiseAgain) {
  WatcherProcess watcher({"--auto"});
  constexpr size_t kRounds = 50;
  Child target(OnSimgpu({"hsa_reinit", "-r", std::to_string(kRounds)}));
  pid_t pid = target.pid();
  Finished result = target.Wait();
  ASSERT_TRUE(result.exited_with(0)) << result.output << result.errors;
  watcher.Stop();
  Recording recording = ReadRecording(watcher.recording());
  const RecordedProcess process = recording.Process(pid);
  ExpectFullRecord(process, Reported(result.output, "dispatches"),
                   std::max<int64_t>(0, Reported(result.output, "copies")));
  // The collector stays in the runtime's tables: no thread is held a second time.
  std::set<uint64_t> windows;
  for (const v1::WindowEvent& event : process.windows) windows.insert(event.hit_ns());
  EXPECT_EQ(windows.size(), 1u);
  EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED);
  EXPECT_EQ(process.verdict.collector().entry_path(), v1::ENTRY_PATH_LIVE_TABLE);
  EXPECT_EQ(recording.summary->hit_to_released().count(), 1u);
}

TEST_F(AttachTest, ALibraryThatIsOpenedLate) {
  if (access(TargetPath("late_python.py").c_str(), R_OK) != 0) {
    GTEST_SKIP() << "late_python.py was not built";
  }
  WatcherProcess watcher({"--auto"});
  Child target(OnSimgpu({"python3", TargetPath("late_python.py")}));
  pid_t pid = target.pid();
  Finished result = target.Wait();
  ASSERT_TRUE(result.exited_with(0)) << result.output << result.errors;
  watcher.Stop();
  ExpectFullRecord(ReadRecording(watcher.recording()).Process(pid),
                   Reported(result.output, "dispatches"),
                   std::max<int64_t>(0, Reported(result.output, "copies")));
}

TEST_F(AttachTest, ForkAndExecVariants) {
  for (const char* name : {"fork_then_init", "init_then_fork", "exec_chain"}) {
    SCOPED_TRACE(name);
    WatcherProcess watcher({"--auto"});
    Finished result = RunTarget({name});
    ASSERT_TRUE(result.exited_with(0)) << result.output << result.errors;
    watcher.Stop();
    Recording recording = ReadRecording(watcher.recording());
    uint64_t dispatches = 0;
    for (const RecordedProcess& process : recording.processes) {
      EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
          << process.verdict.detail();
      EXPECT_EQ(process.dropped(), 0u);
      dispatches += process.dispatches.size();
    }
    EXPECT_GE(recording.processes.size(), 1u);
    EXPECT_EQ(static_cast<int64_t>(dispatches), Reported(result.output, "dispatches"));
  }
}

TEST_F(AttachTest, ProcessesThatExitAtOnce) {
  WatcherProcess watcher({"--auto"});
  for (int i = 0; i < 20; ++i) {
    Finished result = RunTarget({"hsa_exit_early"});
    EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
    EXPECT_EQ(result.output, "dispatches=0 copies=0 bytes=0 result=ok\n");
    EXPECT_EQ(result.errors, "");
  }
  watcher.Stop();
  Recording recording = ReadRecording(watcher.recording());
  EXPECT_EQ(recording.processes.size(), 20u);
  EXPECT_EQ(recording.summary->windows_attached(), 20u);
}

// A child must not inherit any trace of the collector: it prints its environment.
TEST_F(AttachTest, ChildrenInheritACleanEnvironment) {
  Finished alone = RunTarget({"child_environment"});
  WatcherProcess watcher({"--auto"});
  Finished watched = RunTarget({"child_environment"});
  watcher.Stop();
  EXPECT_TRUE(watched.exited_with(0)) << watched.output << watched.errors;
  EXPECT_NE(watched.output.find("HSA_TOOLS_LIB unset"), std::string::npos);
  EXPECT_EQ(alone.output, watched.output);
  EXPECT_EQ(alone.errors, watched.errors);
}

// The user's own tool is loaded beside the collector, and everything is recorded.
TEST_F(AttachTest, TheUsersOwnToolIsLoadedToo) {
  Child::Options environment = {
      .environment = {"HSA_TOOLS_LIB=" +
                      testing_support::WithoutBlanks(ROCATTACH_TEST_NULL_TOOL)}};
  Finished alone = Child(OnSimgpu({"hsa_dispatch", "-n", "30"}), environment).Wait();
  EXPECT_EQ(alone.errors, "null tool loaded\n");
  WatcherProcess watcher({"--auto"});
  Child target(OnSimgpu({"hsa_dispatch", "-n", "30"}), environment);
  pid_t pid = target.pid();
  Finished result = target.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
  EXPECT_EQ(result.errors, alone.errors);
  watcher.Stop();
  ExpectFullRecord(ReadRecording(watcher.recording()).Process(pid), 30, 0);
}

TEST_F(AttachTest, HipPrograms) {
  for (const char* name : {"hip_vector_add", "hip_pipeline"}) {
    if (access(TargetPath(name).c_str(), X_OK) != 0)
      GTEST_SKIP() << name << " was not built";
    SCOPED_TRACE(name);
    WatcherProcess watcher({"--auto"});
    Child target(OnSimgpu({name}));
    pid_t pid = target.pid();
    Finished result = target.Wait();
    ASSERT_TRUE(result.exited_with(0)) << result.output << result.errors;
    watcher.Stop();
    const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED);
    EXPECT_EQ(process.dropped(), 0u);
    // The program counts its own launches; HIP adds kernels that copy and fill.
    int64_t own = 0, by_kernels = 0;
    for (const rocattach_dispatch& d : process.dispatches) {
      auto kernel = process.kernels.find(d.kernel_id);
      ASSERT_NE(kernel, process.kernels.end());
      own += kernel->second.name().rfind("__amd_rocclr_", 0) == 0 ? 0 : 1;
      by_kernels += kernel->second.name().rfind("__amd_rocclr_copy", 0) == 0 ? 1 : 0;
    }
    EXPECT_EQ(own, Reported(result.output, "dispatches"));
    // Since HIP 6, small copies are done by kernels.
    EXPECT_GE(static_cast<int64_t>(process.copies.size()) + by_kernels,
              Reported(result.output, "copies"));
  }
}

TEST_F(AttachTest, OneFilePerProcessWithKeys) {
  ExecutableDirectory directory;
  Child watcher({WatcherPath(), "--auto", "--hold-timeout-msec", "10000", "--json",
                 "--collector", CollectorPath(), "-d", directory.path(), "-o",
                 "%tag%/%pid%"});
  ASSERT_TRUE(Eventually([&] {
    return watcher.PollOutput().find("ready") != std::string::npos;
  })) << "not ready: "
      << watcher.PollOutput();
  Child target(OnSimgpu({"hsa_dispatch", "-n", "10"}));
  pid_t pid = target.pid();
  target.Wait();
  watcher.Signal(SIGINT);
  EXPECT_TRUE(watcher.Wait().exited_with(0));
  Recording recording =
      ReadRecording(directory.path() + "/hsa_dispatch/" + std::to_string(pid) + ".rwa");
  EXPECT_EQ(recording.Process(pid).dispatches.size(), 10u);
  EXPECT_TRUE(recording.ended);
}

TEST_F(AttachTest, TheSignalHoldModeWorksToo) {
  WatcherProcess watcher({"--auto", "--hold", "signal"});
  ASSERT_TRUE(watcher.ready());
  ASSERT_EQ(watcher.Events("ready").at(0)["hold"], "signal");
  for (int i = 0; i < 5; ++i) {
    Finished result =
        RunTarget({"hsa_dispatch", "-n", "100", "--wait-msec", kTimeToSeize});
    ASSERT_TRUE(result.exited_with(0)) << result.errors;
    EXPECT_EQ(Reported(result.output, "dispatches"), 100);
  }
  watcher.Stop();
  Recording recording = ReadRecording(watcher.recording());
  ASSERT_EQ(recording.processes.size(), 5u);
  for (const RecordedProcess& process : recording.processes) {
    EXPECT_EQ(process.verdict.mode(), v1::WINDOW_MODE_SIGNALLED);
    ExpectFullRecord(process, 100, 0);
  }
}

}  // namespace
}  // namespace rocattach::testing_support
