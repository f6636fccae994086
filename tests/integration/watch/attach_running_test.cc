// rocattach attach: programs that have been running for a while, with no variable set
// and no service running, are entered and recorded. Each recording is compared with the
// program's own counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/integration/watch/running_fixture.h"

namespace rocattach::testing_support {
namespace {

using testing::HasSubstr;

// Time in which the idle program does nothing before the attach, in seconds.
unsigned IdleSeconds() {
  const char* seconds = getenv("ROCATTACH_TEST_IDLE_SECONDS");
  return seconds != nullptr ? static_cast<unsigned>(std::max(0, atoi(seconds))) : 2;
}

struct LoadCase {
  const char* name;
  std::vector<std::string> arguments;
};
class AttachUnderLoadTest : public AttachRunningTest,
                            public testing::WithParamInterface<LoadCase> {};

TEST_P(AttachUnderLoadTest, EveryLaterDispatchIsRecorded) {
  Finished target, attacher;
  const RecordedProcess process = AttachOnce(GetParam().arguments, &target, &attacher);
  ExpectExact(process, target, attacher);
  // Held, if the thread made no second call in time.
  EXPECT_THAT(process.verdict.mode(),
              testing::AnyOf(v1::WINDOW_MODE_SIGNALLED, v1::WINDOW_MODE_HELD));
  EXPECT_GT(Named(process, "Before"), 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Loads, AttachUnderLoadTest,
    testing::Values(LoadCase{"OneThread", {}},
                    LoadCase{"SixteenThreads", {"-t", "16", "-m", "300"}},
                    LoadCase{"SharedStreams", {"-t", "8", "-s", "2", "-m", "300"}},
                    LoadCase{"NewStreams", {"-t", "2", "--new", "-m", "100"}}),
    [](const auto& test) { return std::string(test.param.name); });

// A thread that makes one call after another is not held: it is stopped at one of them.
TEST_F(AttachRunningTest, ABusyThreadIsStoppedAtACall) {
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    Finished target, attacher;
    const RecordedProcess process = AttachOnce({"-t", "2"}, &target, &attacher);
    ExpectExact(process, target, attacher);
    std::filesystem::remove(Path("t.rwa"));
    if (process.verdict.mode() != v1::WINDOW_MODE_SIGNALLED) continue;
    EXPECT_NE(process.verdict.tid(), 0u);
    EXPECT_GT(process.verdict.hit_ns(), process.verdict.seized_ns());
    EXPECT_GT(process.verdict.released_ns(), process.verdict.stopped_ns());
    return;
  }
  FAIL() << "held " << kTries << " times of " << kTries;
}

// The signal for that stop is never used where the program would see it if the service
// died at the same time.
TEST_F(AttachRunningTest, AProgramThatHandlesTheStopSignalIsHeld) {
  Finished target, attacher;
  const RecordedProcess process =
      AttachOnce({"-t", "2", "--urgent"}, &target, &attacher);
  ExpectExact(process, target, attacher);
  EXPECT_EQ(process.verdict.mode(), v1::WINDOW_MODE_HELD);
  EXPECT_THAT(target.output, HasSubstr("urgent=0\n"));
}

// One write to the doorbell submits all packets of a graph.
class AttachToGraphsTest : public AttachRunningTest,
                           public testing::WithParamInterface<int> {};

TEST_P(AttachToGraphsTest, EveryLaterNodeIsRecorded) {
  Finished target, attacher;
  const RecordedProcess process =
      AttachToProgram({"hsa_graph", "--nodes", std::to_string(GetParam()), "-n", "6"},
                      &target, &attacher);
  ExpectExact(process, target, attacher, "increment", "accumulate");
  EXPECT_EQ(Printed(target.output, "after"), 6 * GetParam());
}

INSTANTIATE_TEST_SUITE_P(Nodes, AttachToGraphsTest,
                         testing::Values(1, 2, 63, 64, 65, 1000, 4096, 8192));

TEST_F(AttachRunningTest, CodeObjectsThatComeAndGo) {
  // Newer runtimes copy code objects through a queue of their own, for which several
  // threads ring: of two values at once, the simulated GPU misses the larger. Without a
  // doorbell, packets wait for less time than threads wait for the arming one.
  const std::vector<std::string> patience = {"SIMGPU_UNRUNG_NS=100000000"};
  for (int i = 0; i < 3; ++i) {
    Finished target, attacher;
    const RecordedProcess process = AttachToProgram(
        {"hsa_code_objects", "-t", "3", "-m", "40"}, &target, &attacher, patience);
    ExpectExact(process, target, attacher, "increment", "accumulate");
    EXPECT_GT(process.kernels.size(), 1u);
    // An existing recording is never overwritten: the next one would get another name.
    std::filesystem::remove(Path("t.rwa"));
  }
}

// Only the program's next call shows whether it can provide what a session asks for:
// "ready" does not wait for that.
TEST_F(AttachRunningTest, AnIdleProgramIsReadyBeforeItAnswers) {
  auto child = Start({"--idle", "-m", "100"});
  Attacher attach(Path("t.rwa"), {child->pid()}, {"--hip-trace"});
  EXPECT_TRUE(attach.Saw("ready"));
  EXPECT_EQ(attach.Events("session_refused").size(), 0u) << "it has called nothing yet";
  Change();
  const Finished end = child->Wait();
  (void)attach.child().Wait();
  EXPECT_EQ(attach.Events("session_refused").size(), 1u) << attach.child().PollOutput();
  const RecordedProcess process = ReadRecording(Path("t.rwa")).Process(child->pid());
  EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
  EXPECT_EQ(process.verdict.mode(), v1::WINDOW_MODE_BLOCKED);
  EXPECT_EQ(static_cast<int64_t>(Named(process, "After")),
            Printed(end.output, "after"));
}

// No thread calls the runtime: all have been blocked for a while, so the only safe
// point is a system call. A thread that is blocked in one is entered, and the program's
// next call arms the collector.
TEST_F(AttachRunningTest, AnIdleProgram) {
  auto child = Start({"--idle", "-t", "2"});
  // The passing of time is what is tested.
  sleep(IdleSeconds());
  Attacher attach(Path("t.rwa"), {child->pid()});
  EXPECT_TRUE(attach.Attached());
  Change();
  const Finished target = child->Wait(), attacher = attach.child().Wait();
  const Recording recording = ReadRecording(Path("t.rwa"));
  ASSERT_EQ(recording.processes.size(), 1u);
  const RecordedProcess& process = recording.processes[0];
  ExpectExact(process, target, attacher);
  EXPECT_EQ(process.verdict.mode(), v1::WINDOW_MODE_BLOCKED);
  EXPECT_EQ(Named(process, "Before"), 0u);
}

// The process has the system's copy of the runtime and one of a Python package: the one
// in use counts, whichever the kernel lists first.
TEST_F(AttachRunningTest, ASecondCopyOfTheRuntimeThatIsNotUsed) {
  const std::string copy = Path("libhsa-runtime64-0a1b2c3d.so.1");
  std::filesystem::copy_file("/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1", copy);
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"-t", "2", "-m", "100"}, {"--idle", "-m", "100"}}) {
    std::vector<std::string> words = arguments;
    words.insert(words.end(), {"--beside", copy});
    Finished target, attacher;
    const RecordedProcess process = AttachOnce(words, &target, &attacher);
    ExpectExact(process, target, attacher);
    EXPECT_THAT(process.process.hsa_library(), testing::Not(HasSubstr("0a1b2c3d")));
    std::filesystem::remove(Path("t.rwa"));
  }
}

// Under load and idle, because these are entered in different ways.
TEST_F(AttachRunningTest, AContainerThatHasNoCollector) {
  in_container_ = true;
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"-t", "4", "-m", "100"}, {"--idle", "-t", "2"}}) {
    Finished target, attacher;
    const RecordedProcess process = AttachOnce(arguments, &target, &attacher);
    ExpectExact(process, target, attacher);
    EXPECT_EQ(process.verdict.mode(), arguments[0] == "--idle" ? v1::WINDOW_MODE_BLOCKED
                                                               : v1::WINDOW_MODE_HELD);
    std::filesystem::remove(Path("t.rwa"));
  }
}

TEST_F(AttachRunningTest, TheServiceAttachesToRunningProcesses) {
  auto busy = Start({"-t", "2"});
  WatcherProcess watcher({"--auto", "--attach-running"});
  ASSERT_TRUE(watcher.ready());
  ASSERT_TRUE(Eventually([&] { return watcher.PollEvents("window") >= 1; }));
  const Finished later = RunTarget({"hsa_dispatch", "-n", "10"});
  EXPECT_TRUE(later.exited_with(0));
  Change();
  const Finished target = busy->Wait();
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Recording recording = ReadRecording(watcher.recording());
  ASSERT_EQ(recording.processes.size(), 2u);
  EXPECT_EQ(static_cast<int64_t>(Named(recording.Process("hip_late"), "After")),
            Printed(target.output, "after"));
  EXPECT_EQ(recording.Process("hsa_dispatch").dispatches.size(), 10u);
}

// Both if the process ends and if the attach ends before it.
TEST_F(AttachRunningTest, OutputsAreWrittenAtTheEnd) {
  for (const bool detached : {false, true}) {
    SCOPED_TRACE(detached ? "detached" : "ended");
    const std::string base = Path(detached ? "detached" : "ended");
    auto target = Start({});
    Attacher attach(base + ".rwa", {target->pid()}, {"-f", "csv,ndjson,pftrace"});
    ASSERT_TRUE(attach.Attached());
    Finished attacher;
    if (detached) {
      const uint64_t size = std::filesystem::file_size(base + ".rwa");
      ASSERT_TRUE(Eventually(
          [&] { return std::filesystem::file_size(base + ".rwa") > size + 4096; }));
      attacher = attach.Stop();
      Change();
    } else {
      Change();
      attacher = attach.child().Wait();
    }
    EXPECT_TRUE(target->Wait().exited_with(0));
    EXPECT_TRUE(attacher.exited_with(0)) << attacher.output << attacher.errors;
    const Recording recording = ReadRecording(base + ".rwa");
    ASSERT_EQ(recording.processes.size(), 1u);
    const auto dispatches =
        static_cast<int64_t>(recording.processes[0].dispatches.size());
    EXPECT_GT(dispatches, 0);
    std::ifstream rows(base + "_kernel_trace.csv");
    EXPECT_EQ(std::count(std::istreambuf_iterator<char>(rows), {}, '\n'),
              dispatches + 1);
    std::ifstream lines(base + "_results.ndjson");
    int64_t found = 0;
    for (std::string line; std::getline(lines, line);) {
      found += absl::StrContains(line, "\"type\":\"dispatch\"");
    }
    EXPECT_EQ(found, dispatches);
    EXPECT_GT(std::filesystem::file_size(base + "_results.pftrace"), 0u);
  }
}

}  // namespace
}  // namespace rocattach::testing_support
