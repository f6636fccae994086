// rocattach attach: programs that have been running for a while, without any variable
// set and without a watcher, are entered and recorded. Each is compared with what it
// counts itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/watch/attacher.h"
#include "tests/integration/watch/containers.h"
#include "tests/integration/watch/harness.h"
#include "userspace/base/process.h"
#include "userspace/watch/running_process.h"

namespace rocattach::testing_support {
namespace {

using testing::HasSubstr;

// Attaches and detaches, or attackers killed: the full number on request, and then with
// more threads.
bool IsFull() {
  return getenv("ROCATTACH_TEST_ATTACHES") != nullptr;
}
int Rounds(int reduced) {
  const char* full = getenv("ROCATTACH_TEST_ATTACHES");
  return full != nullptr ? std::max(1, atoi(full)) : reduced;
}

// How long the idle program does nothing before it is attached to.
unsigned IdleSeconds() {
  const char* seconds = getenv("ROCATTACH_TEST_IDLE_SECONDS");
  return seconds != nullptr ? static_cast<unsigned>(std::max(0, atoi(seconds))) : 2;
}

// How processes were entered in the rounds of one test.
struct Entries {
  int anew = 0, taken_over = 0;
  void Count(const RecordedProcess& process) {
    if (process.verdict.state() != v1::WINDOW_STATE_ATTACHED) return;
    ++(process.verdict.mode() == v1::WINDOW_MODE_TAKEN_OVER ? taken_over : anew);
  }
  // In the test's report, and where people look.
  void Report() const {
    testing::Test::RecordProperty("entered_anew", anew);
    testing::Test::RecordProperty("taken_over", taken_over);
    printf("entered anew: %d, taken over: %d\n", anew, taken_over);
  }
};

class AttachRunningTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }

  // Starts hip_late, and returns when its threads have launched for a while.
  std::unique_ptr<Child> Start(std::vector<std::string> arguments,
                               std::vector<std::string> environment = {}) {
    arguments.insert(arguments.begin(), "hip_late");
    return StartProgram(std::move(arguments), std::move(environment));
  }
  // The same with another program that changes what it launches.
  std::unique_ptr<Child> StartProgram(std::vector<std::string> command,
                                      std::vector<std::string> environment = {}) {
    std::filesystem::remove(Path("go"));
    auto target = Launch(std::move(command), "ready", std::move(environment));
    EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(Path("ready")); }));
    return target;
  }
  // The same without waiting: it is ready when there is such a file.
  std::unique_ptr<Child> Launch(std::vector<std::string> command,
                                const std::string& ready,
                                std::vector<std::string> environment = {}) {
    std::filesystem::remove(Path(ready));
    command.insert(command.end(), {"--until", Path("go"), "--ready", Path(ready)});
    command = OnSimgpu(command);
    if (in_container_) command = WithoutCollector(command);
    return std::make_unique<Child>(
        command,
        Child::Options{.environment = std::move(environment), .dies_with_us = true});
  }
  void Change() { std::ofstream(Path("go")).put('\n'); }
  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }

  // Runs the target, attaches, lets it change, and waits for both ends.
  RecordedProcess AttachOnce(std::vector<std::string> arguments, Finished* target,
                             Finished* attacher) {
    arguments.insert(arguments.begin(), "hip_late");
    return AttachToProgram(std::move(arguments), target, attacher);
  }
  RecordedProcess AttachToProgram(std::vector<std::string> command, Finished* target,
                                  Finished* attacher) {
    auto child = StartProgram(std::move(command));
    Attacher attach(Path("t.rwa"), {child->pid()});
    EXPECT_TRUE(attach.Attached());
    Change();
    *target = child->Wait();
    *attacher = attach.child().Wait();
    const Recording recording = ReadRecording(Path("t.rwa"));
    EXPECT_EQ(recording.processes.size(), 1u);
    return recording.processes.empty() ? RecordedProcess() : recording.processes[0];
  }

  static uint64_t Named(const RecordedProcess& process, const std::string& part) {
    uint64_t count = 0;
    for (const rocattach_dispatch& d : process.dispatches) {
      const auto kernel = process.kernels.find(d.kernel_id);
      count += kernel != process.kernels.end() &&
               kernel->second.name().find(part) != std::string::npos;
    }
    return count;
  }

  // The target did well, and all that it launched after the change is recorded.
  static void ExpectExact(const RecordedProcess& process, const Finished& target,
                          const Finished& attacher,
                          const std::string& before = "Before",
                          const std::string& after = "After") {
    EXPECT_TRUE(target.exited_with(0)) << target.output << target.errors;
    EXPECT_THAT(target.output, HasSubstr("result=ok"));
    EXPECT_EQ(target.errors, "");
    EXPECT_TRUE(attacher.exited_with(0)) << attacher.output << attacher.errors;
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
        << process.verdict.detail();
    EXPECT_EQ(process.verdict.collector().entry_path(), v1::ENTRY_PATH_LATE);
    EXPECT_EQ(static_cast<int64_t>(Named(process, after)),
              Printed(target.output, "after"))
        << target.output;
    EXPECT_LE(static_cast<int64_t>(Named(process, before)),
              Printed(target.output, "before"));
    EXPECT_EQ(process.dropped(), 0u);
    EXPECT_EQ(process.account.untimed(), 0u);
    EXPECT_EQ(process.account.packets_unseen(), 0u);
  }

  ExecutableDirectory directory_;
  bool in_container_ = false;  // the target sees no file of the collector
};

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

// A thread that makes one call after the other is not held: it stops at one of them.
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

// The signal of that stop is never used where the program would see it if the service
// died at the same time.
TEST_F(AttachRunningTest, AProgramThatHandlesTheStopSignalIsHeld) {
  Finished target, attacher;
  const RecordedProcess process =
      AttachOnce({"-t", "2", "--urgent"}, &target, &attacher);
  ExpectExact(process, target, attacher);
  EXPECT_EQ(process.verdict.mode(), v1::WINDOW_MODE_HELD);
  EXPECT_THAT(target.output, HasSubstr("urgent=0\n"));
}

// The packets of a graph are behind one ring of the doorbell.
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
  for (int i = 0; i < 3; ++i) {
    Finished target, attacher;
    const RecordedProcess process = AttachToProgram(
        {"hsa_code_objects", "-t", "3", "-m", "40"}, &target, &attacher);
    ExpectExact(process, target, attacher, "increment", "accumulate");
    EXPECT_GT(process.kernels.size(), 1u);
  }
}

// Nobody calls the runtime: a thread that is blocked in a system call is entered, and
// the program's next call arms the collector.
// Its threads have been blocked for a while: all that can be entered is a system call.
TEST_F(AttachRunningTest, AnIdleProgram) {
  auto child = Start({"--idle", "-t", "2"});
  // That time passes is what is tested.
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

// A system's copy of the runtime and that of a Python package: the one in use counts,
// whichever the kernel lists first.
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

// Under load, and idle: both ways in.
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

// Plain, and with AddressSanitizer's runtime: its allocator and its checks of what the
// C library's functions are passed.
class AttachAgainTest : public AttachRunningTest,
                        public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    AttachRunningTest::SetUp();
    if (std::string(GetParam()) != "Plain" &&
        !std::filesystem::exists(ROCATTACH_TEST_ASAN)) {
      GTEST_SKIP() << "needs gcc's libasan";
    }
  }
  std::vector<std::string> Environment() const {
    if (std::string(GetParam()) == "Plain") return {};
    return {absl::StrCat("LD_PRELOAD=", ROCATTACH_TEST_ASAN),
            // What is freed is not to look like what is left behind.
            "ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:quarantine_size_mb=1"};
  }
};
INSTANTIATE_TEST_SUITE_P(Programs, AttachAgainTest,
                         testing::Values("Plain", "AddressSanitizer"),
                         [](const auto& test) { return std::string(test.param); });

// Detached, it runs on and records nothing; each attacher after that gets what it was
// there for, without stopping a thread again. Nothing piles up in the process.
TEST_P(AttachAgainTest, AttachAgainAndAgain) {
  auto target = Start({"-t", IsFull() ? "16" : "3", "-m", "200"}, Environment());
  const std::string proc = absl::StrCat("/proc/", target->pid());
  auto count = [&](const std::string& directory) {
    return std::distance(std::filesystem::directory_iterator(proc + directory), {});
  };
  auto mappings = [&] {
    std::ifstream maps(proc + "/maps");
    return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  };
  // Memory of the process itself, without what it shares with the service.
  auto own_kib = [&]() -> long {
    std::ifstream status(proc + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("RssAnon:")) return atol(&line[strlen("RssAnon:")]);
    }
    return 0;
  };
  // The program's own allocations vary; of 500 rounds each may leave 32 KiB at most.
  constexpr long kMostKib = 16 << 10;
  long descriptors = 0, threads = 0, maps = 0, kib = 0;
  Entries entries;
  const int rounds = Rounds(3);
  for (int i = 0; i < rounds; ++i) {
    Attacher attach(Path("round.rwa"), {target->pid()});
    ASSERT_TRUE(attach.Attached()) << attach.child().PollOutput();
    usleep(100'000);
    const Finished end = attach.Stop();
    ASSERT_TRUE(end.exited_with(0)) << i << end.output << end.errors;
    const Recording recording = ReadRecording(Path("round.rwa"));
    ASSERT_EQ(recording.processes.size(), 1u);
    const RecordedProcess& process = recording.processes[0];
    ASSERT_GT(process.dispatches.size(), 0u) << i;
    EXPECT_EQ(process.account.dispatches_seen(), process.dispatches.size());
    EXPECT_EQ(process.dropped(), 0u);
    // Without a processor for half a second, a busy program counts as idle.
    EXPECT_EQ(process.verdict.mode() == v1::WINDOW_MODE_TAKEN_OVER, i != 0);
    entries.Count(process);
    std::filesystem::remove(Path("round.rwa"));
    if (i == 1) {
      descriptors = count("/fd");
      threads = count("/task");
      maps = mappings();
      kib = own_kib();
      EXPECT_GT(kib, 0);
    }
  }
  entries.Report();
  EXPECT_LE(own_kib(), kib + kMostKib);
  EXPECT_EQ(count("/fd"), descriptors);
  EXPECT_EQ(count("/task"), threads);
  // The allocator of the program itself may add some.
  EXPECT_LE(mappings(), maps + 8);
  Attacher last(Path("t.rwa"), {target->pid()});
  ASSERT_TRUE(last.Attached());
  Change();
  const Finished end = target->Wait();
  const Finished attacher = last.child().Wait();
  const Recording recording = ReadRecording(Path("t.rwa"));
  ASSERT_EQ(recording.processes.size(), 1u);
  ExpectExact(recording.processes[0], end, attacher);
  EXPECT_EQ(recording.processes[0].end.how(), v1::ProcessEnd::EXITED);
}

TEST_P(AttachAgainTest, AnAttacherKilledAtAnyInstant) {
  auto target = Start({"-t", "4", "-m", "200"}, Environment());
  std::mt19937 random(1);
  const int rounds = Rounds(8);
  for (int i = 0; i < rounds; ++i) {
    Attacher attach(Path("killed.rwa"), {target->pid()});
    // One that comes right after a killed one is refused, but that is an instant, too.
    if (i == 0) {
      ASSERT_TRUE(attach.Attached());
    }
    usleep(static_cast<useconds_t>(random() % 900'000));
    attach.child().Signal(SIGKILL);
    attach.child().Wait();
    std::filesystem::remove(Path("killed.rwa"));
    auto status = ReadProcessInfo(target->pid());
    ASSERT_TRUE(status.ok()) << "the target has died in round " << i;
    EXPECT_EQ(status->tracer, 0);
  }
  // The last one died without saying so: it counts as gone after some seconds.
  std::unique_ptr<Attacher> last;
  ASSERT_TRUE(Eventually([&] {
    last = std::make_unique<Attacher>(Path("t.rwa"), std::vector{target->pid()});
    Eventually([&] {
      return !last->Events("attached").empty() || !last->Events("not_attached").empty();
    });
    if (!last->Events("attached").empty()) return true;
    last->Stop();
    std::filesystem::remove(Path("t.rwa"));
    return false;
  }));
  Change();
  const Finished end = target->Wait();
  const Finished attacher = last->child().Wait();
  const Recording recording = ReadRecording(Path("t.rwa"));
  ASSERT_EQ(recording.processes.size(), 1u);
  ExpectExact(recording.processes[0], end, attacher);
}

// New processes each time, entered by one command; every other round it is killed.
TEST_F(AttachRunningTest, ManyProcessesAtOnce) {
  const int processes = IsFull() ? 10 : 4;
  std::mt19937 random(2);
  const int rounds = std::max(2, Rounds(0) / processes);
  Entries entries;
  for (int i = 0; i < rounds; ++i) {
    std::filesystem::remove(Path("go"));
    std::vector<std::unique_ptr<Child>> targets;
    std::vector<pid_t> pids;
    for (int n = 0; n < processes; ++n) {
      // Not all busy: each has a thread that is the GPU, and spins.
      std::vector<std::string> command = {"hip_late", "-m", "20"};
      if (n % 8 != 7) command.push_back("--idle");
      targets.push_back(Launch(command, absl::StrCat("ready", n)));
      pids.push_back(targets.back()->pid());
    }
    for (int n = 0; n < processes; ++n) {
      ASSERT_TRUE(Eventually(
          [&] { return std::filesystem::exists(Path(absl::StrCat("ready", n))); }));
    }
    Attacher attach(Path("many.rwa"), pids);
    if (i % 2 == 0) {
      EXPECT_TRUE(attach.Attached(processes)) << attach.child().PollOutput();
      const Finished end = attach.Stop();
      // Those that were idle have done nothing meanwhile.
      EXPECT_TRUE(end.exited_with(4)) << end.output << end.errors;
      for (const RecordedProcess& process : ReadRecording(Path("many.rwa")).processes) {
        entries.Count(process);
      }
    } else {
      usleep(static_cast<useconds_t>(random() % 1'500'000));
      attach.child().Signal(SIGKILL);
      attach.child().Wait();
    }
    Change();
    for (const auto& target : targets) {
      const Finished end = target->Wait();
      EXPECT_TRUE(end.exited_with(0)) << i << end.output << end.errors;
      EXPECT_THAT(end.output, HasSubstr("result=ok"));
      EXPECT_EQ(end.errors, "");
    }
    std::filesystem::remove(Path("many.rwa"));
  }
  entries.Report();
  // Each process is new.
  EXPECT_EQ(entries.taken_over, 0);
}

TEST_F(AttachRunningTest, OnlyOneServiceReadsAProcess) {
  auto target = Start({});
  Attacher first(Path("first.rwa"), {target->pid()});
  ASSERT_TRUE(first.Attached());
  Attacher second(Path("second.rwa"), {target->pid()});
  const Finished refused = second.child().Wait();
  EXPECT_TRUE(refused.exited_with(1)) << refused.output << refused.errors;
  EXPECT_THAT(refused.output, HasSubstr("another rocattach service records"));
  Change();
  EXPECT_TRUE(target->Wait().exited_with(0));
  EXPECT_TRUE(first.child().Wait().exited_with(0));
}

TEST_F(AttachRunningTest, TheWatcherTakesWhatRunsAlready) {
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

#ifdef OTHER_TOOL
// A profiler that has been in the process since its start, and so is below us.
class BesideAnotherToolTest : public AttachRunningTest {
 protected:
  std::unique_ptr<Child> StartWithTool(std::vector<std::string> options) {
    std::vector<std::string> command = {SimrocmRunPath(), "--preload", OTHER_TOOL};
    command.insert(command.end(), options.begin(), options.end());
    for (const std::string& word :
         {TargetPath("hip_late"), std::string("--until"), Path("go"),
          std::string("--ready"), Path("ready"), std::string("-t"), std::string("2")}) {
      command.push_back(word);
    }
    auto target = std::make_unique<Child>(
        command, Child::Options{.environment = {"SIMGPU_UNRUNG_NS=1000000000",
                                                "OTHER_TOOL=dispatch",
                                                "OTHER_TOOL_OUTPUT=" + Path("report"),
                                                "OTHER_TOOL_DONE=" + Path("done")},
                                .dies_with_us = true});
    EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(Path("ready")); }));
    return target;
  }
};

// Its handlers must not meet signals that the runtime does not know, so what has no
// signal of the program's own has no times.
TEST_F(BesideAnotherToolTest, ItsInterceptQueuesAreRecordedWithoutTimes) {
  auto target = StartWithTool({});
  Attacher attach(Path("t.rwa"), {target->pid()});
  ASSERT_TRUE(attach.Attached());
  Change();
  const Finished end = target->Wait();
  EXPECT_TRUE(attach.child().Wait().exited_with(0));
  EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
  EXPECT_EQ(end.errors, "");
  const Recording recording = ReadRecording(Path("t.rwa"));
  ASSERT_EQ(recording.processes.size(), 1u);
  EXPECT_EQ(static_cast<int64_t>(Named(recording.processes[0], "After")),
            Printed(end.output, "after"));
  EXPECT_EQ(recording.processes[0].dropped(), 0u);
}

// Its indices are not those of the queues.
TEST_F(BesideAnotherToolTest, ItsInlineInterpositionIsLeftAlone) {
  auto target = StartWithTool({"--interposition"});
  Attacher attach(Path("t.rwa"), {target->pid()});
  ASSERT_TRUE(Eventually([&] { return !attach.Events("not_attached").empty(); }));
  Change();
  const Finished end = target->Wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
  EXPECT_THAT(end.output, HasSubstr("result=ok"));
  EXPECT_EQ(end.errors, "");
  const Finished attacher = attach.child().Wait();
  EXPECT_TRUE(attacher.exited_with(1));
  EXPECT_THAT(attacher.output, HasSubstr("gives out the write indices"));
}
#endif

// Whether the process ends or the attach does.
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

struct BadCase {
  const char* name;
  std::string pid;
  const char* words;
  int status;
};
class BadPidTest : public AttachRunningTest,
                   public testing::WithParamInterface<BadCase> {};

TEST_P(BadPidTest, IsOneClearLine) {
  const BadCase& test = GetParam();
  const Finished end =
      Child({ClientPath(), "attach", "-p", test.pid, "-d", Path("out")}).Wait();
  EXPECT_TRUE(end.exited_with(test.status)) << end.errors;
  EXPECT_THAT(end.errors, HasSubstr(test.words));
  EXPECT_FALSE(std::filesystem::exists(Path("out"))) << "an output of nothing";
}

INSTANTIATE_TEST_SUITE_P(
    Pids, BadPidTest,
    testing::Values(BadCase{"Word", "abc", "is not a process ID", 2},
                    BadCase{"Zero", "0", "is not a process ID", 2},
                    BadCase{"Negative", "-5", "is not a process ID", 2},
                    BadCase{"Missing", "4194303", "there is no process", 1},
                    BadCase{"KernelThread", "2", "thread of the kernel", 1},
                    BadCase{"Init", "1", "process 1 ", 1}),
    [](const auto& test) { return std::string(test.param.name); });

// Control groups are frozen by writing to a file: that of version 2, and of version 1.
struct Freezer {
  const char* parent;
  const char* file;
  const char* frozen;
  const char* thawed;
};
constexpr Freezer kFreezers[] = {
    {"/sys/fs/cgroup/unified", "cgroup.freeze", "1", "0"},
    {"/sys/fs/cgroup", "cgroup.freeze", "1", "0"},
    {"/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED"},
};

bool WriteText(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file);
  out << text << std::flush;
  return out.good();
}

// Neither is entered, and each goes on as before once it may.
TEST_F(AttachRunningTest, AStoppedOrFrozenProcess) {
  auto expect_refusal = [this](const Child& target, const std::string& why) {
    Attacher attach(Path("t.rwa"), {target.pid()}, {"--attach-duration-msec", "20000"});
    const Finished end = attach.child().Wait();
    EXPECT_TRUE(end.exited_with(1)) << end.output << end.errors;
    const std::vector<nlohmann::json> refused = attach.Events("not_attached");
    ASSERT_EQ(refused.size(), 1u) << end.output;
    EXPECT_EQ(refused[0].value("reason", ""), "not-running");
    EXPECT_THAT(refused[0].value("detail", ""), HasSubstr(why));
    std::filesystem::remove(Path("t.rwa"));
  };
  auto target = Start({"-t", "2", "-m", "10"});
  ASSERT_EQ(kill(target->pid(), SIGSTOP), 0);
  ASSERT_TRUE(Eventually([&] { return CheckIsRunning(target->pid()).ok() == false; }));
  expect_refusal(*target, "is stopped");
  ASSERT_EQ(kill(target->pid(), SIGCONT), 0);
  int freezers = 0;
  for (const Freezer& freezer : kFreezers) {
    const auto group = std::filesystem::path(freezer.parent) /
                       absl::StrCat("rocattach-test-", target->pid());
    std::error_code error;
    if (!std::filesystem::create_directory(group, error)) continue;
    // Where the directory is no control group, it is empty.
    if (std::filesystem::exists(group / freezer.file) &&
        WriteText(group / "cgroup.procs", absl::StrCat(target->pid())) &&
        WriteText(group / freezer.file, freezer.frozen)) {
      ++freezers;
      ASSERT_TRUE(
          Eventually([&] { return CheckIsRunning(target->pid()).ok() == false; }));
      expect_refusal(*target, "is frozen");
      EXPECT_TRUE(WriteText(group / freezer.file, freezer.thawed));
      EXPECT_TRUE(
          WriteText(group.parent_path() / "cgroup.procs", absl::StrCat(target->pid())));
    }
    std::filesystem::remove(group, error);
  }
  if (freezers == 0) {
    Change();
    EXPECT_TRUE(target->Wait().exited_with(0));
    GTEST_SKIP() << "needs a control group that can be frozen";
  }
  Change();
  const Finished end = target->Wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
  EXPECT_THAT(end.output, HasSubstr("result=ok"));
  EXPECT_EQ(end.errors, "");
}

TEST_F(AttachRunningTest, AThreadIsNotAProcess) {
  pid_t tid = 0;
  std::atomic<bool> over = false;
  std::thread thread([&] {
    tid = gettid();
    while (!over) usleep(1000);
  });
  while (tid == 0) usleep(1000);
  const Finished end =
      Child({ClientPath(), "attach", "-p", std::to_string(tid), "-d", Path("out")})
          .Wait();
  over = true;
  thread.join();
  EXPECT_TRUE(end.exited_with(1)) << end.errors;
  EXPECT_THAT(end.errors, HasSubstr(absl::StrCat("is a thread of process ", getpid())));
}

}  // namespace
}  // namespace rocattach::testing_support
