// Repeated attaches, to many processes, by attachers that are killed: nothing is left
// behind. ROCATTACH_TEST_ATTACHES sets the full number of rounds, with more threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/watch/running_fixture.h"
#include "userspace/base/process.h"

namespace rocattach::testing_support {
namespace {

using testing::HasSubstr;

// True if the full number of rounds was requested (attaches and detaches, or attachers
// killed); then there are also more threads.
bool IsFull() {
  return getenv("ROCATTACH_TEST_ATTACHES") != nullptr;
}
int Rounds(int reduced) {
  const char* full = getenv("ROCATTACH_TEST_ATTACHES");
  return full != nullptr ? std::max(1, atoi(full)) : reduced;
}

// In the full number of rounds, a busy target gives way to the attachers: otherwise
// most of the time would be spent waiting for a processor.
void YieldToAttachers(pid_t pid) {
  if (!IsFull()) return;
  for (const auto& thread :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"))) {
    const int tid = atoi(thread.path().filename().c_str());
    EXPECT_EQ(setpriority(PRIO_PROCESS, static_cast<id_t>(tid), 10), 0);
  }
}

// Number of processes that were entered anew or taken over in one test.
struct Entries {
  int anew = 0, taken_over = 0;
  void Count(const RecordedProcess& process) {
    if (process.verdict.state() != v1::WINDOW_STATE_ATTACHED) return;
    ++(process.verdict.mode() == v1::WINDOW_MODE_TAKEN_OVER ? taken_over : anew);
  }
  // Writes the numbers to the test's report and to standard output.
  void Report() const {
    testing::Test::RecordProperty("entered_anew", anew);
    testing::Test::RecordProperty("taken_over", taken_over);
    printf("entered anew: %d, taken over: %d\n", anew, taken_over);
  }
};

// A plain program, and one with AddressSanitizer's runtime: its allocator, and its
// checks of the arguments of C library functions. The latter is not entered late but at
// its window, by a service that has ended before the first attacher starts.
class AttachAgainTest : public AttachRunningTest,
                        public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    AttachRunningTest::SetUp();
    if (!IsPlain() && !std::filesystem::exists(ROCATTACH_TEST_ASAN)) {
      GTEST_SKIP() << "needs gcc's libasan";
    }
  }
  static bool IsPlain() { return std::string(GetParam()) == "Plain"; }
  std::unique_ptr<Child> StartIt(std::vector<std::string> arguments) {
    if (IsPlain()) return Start(std::move(arguments));
    WatcherProcess service({"--auto"});
    EXPECT_TRUE(service.ready());
    auto target = Start(std::move(arguments), Environment());
    EXPECT_TRUE(service.Stop().exited_with(0));
    return target;
  }
  static void ExpectRecorded(const RecordedProcess& process, const Finished& target,
                             const Finished& attacher) {
    (IsPlain() ? ExpectExact : ExpectComplete)(process, target, attacher, "Before",
                                               "After");
  }

 private:
  static std::vector<std::string> Environment() {
    return {absl::StrCat("LD_PRELOAD=", ROCATTACH_TEST_ASAN),
            // Freed memory in a larger quarantine would look like memory left behind.
            "ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:quarantine_size_mb=1"};
  }
};
INSTANTIATE_TEST_SUITE_P(Programs, AttachAgainTest,
                         testing::Values("Plain", "AddressSanitizer"),
                         [](const auto& test) { return std::string(test.param); });

// Detached, the process runs on and records nothing. Each later attacher gets its
// recording without stopping a thread again, and nothing accumulates in the process.
TEST_P(AttachAgainTest, AttachAgainAndAgain) {
  auto target = StartIt({"-t", IsFull() ? "16" : "3", "-m", "200"});
  YieldToAttachers(target->pid());
  const std::string proc = absl::StrCat("/proc/", target->pid());
  auto count = [&](const std::string& directory) {
    return std::distance(std::filesystem::directory_iterator(proc + directory), {});
  };
  auto mappings = [&] {
    std::ifstream maps(proc + "/maps");
    return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  };
  // Anonymous memory: the process's own, without what it shares with the service.
  auto own_kib = [&]() -> long {
    std::ifstream status(proc + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("RssAnon:")) return atol(&line[strlen("RssAnon:")]);
    }
    return 0;
  };
  // The program's own allocations vary; in 500 rounds, each may leave 32 KiB at most.
  constexpr long kMostKib = 16 << 10;
  long descriptors = 0, threads = 0, maps = 0, kib = 0;
  Entries entries;
  const int rounds = Rounds(3);
  for (int i = 0; i < rounds; ++i) {
    Attacher attach(Path("round.rwa"), {target->pid()});
    ASSERT_TRUE(attach.Attached()) << attach.child().PollOutput();
    usleep(100'000);  // the time to record
    const Finished end = attach.Stop();
    ASSERT_TRUE(end.exited_with(0)) << i << end.output << end.errors;
    const Recording recording = ReadRecording(Path("round.rwa"));
    ASSERT_EQ(recording.processes.size(), 1u);
    const RecordedProcess& process = recording.processes[0];
    ASSERT_GT(process.dispatches.size(), 0u) << i;
    EXPECT_EQ(process.account.dispatches_seen(), process.dispatches.size());
    EXPECT_EQ(process.dropped(), 0u);
    // A busy program that gets no processor for half a second counts as idle.
    EXPECT_EQ(process.verdict.mode() == v1::WINDOW_MODE_TAKEN_OVER,
              i != 0 || !IsPlain());
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
  // The program's own allocator may add some mappings.
  EXPECT_LE(mappings(), maps + 8);
  Attacher last(Path("t.rwa"), {target->pid()});
  ASSERT_TRUE(last.Attached());
  Change();
  const Finished end = target->Wait();
  const Finished attacher = last.child().Wait();
  const Recording recording = ReadRecording(Path("t.rwa"));
  ASSERT_EQ(recording.processes.size(), 1u);
  ExpectRecorded(recording.processes[0], end, attacher);
  EXPECT_EQ(recording.processes[0].end.how(), v1::ProcessEnd::EXITED);
}

TEST_P(AttachAgainTest, AnAttacherKilledAtAnyInstant) {
  auto target = StartIt({"-t", IsFull() ? "16" : "4", "-m", "200"});
  YieldToAttachers(target->pid());
  std::mt19937 random(1);
  const int rounds = Rounds(8);
  for (int i = 0; i < rounds; ++i) {
    Attacher attach(Path("killed.rwa"), {target->pid()});
    // An attacher right after a killed one is refused, but that is an instant, too.
    if (i == 0) {
      ASSERT_TRUE(attach.Attached());
    }
    usleep(static_cast<useconds_t>(random() % 900'000));  // any instant
    attach.child().Signal(SIGKILL);
    attach.child().Wait();
    std::filesystem::remove(Path("killed.rwa"));
    auto status = ReadProcessInfo(target->pid());
    ASSERT_TRUE(status.ok()) << "the target has died in round " << i;
    EXPECT_EQ(status->tracer, 0);
  }
  // The last attacher was killed without detaching: it counts as gone after seconds.
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
  ExpectRecorded(recording.processes[0], end, attacher);
}

// New processes in each round, entered by one command, which is killed in some rounds.
TEST_F(AttachRunningTest, ManyProcessesAtOnce) {
  const int processes = IsFull() ? 40 : 4;
  const int killed_of = IsFull() ? 10 : 2;
  std::mt19937 random(2);
  const int rounds = std::max(2, Rounds(0) / processes);
  Entries entries;
  for (int i = 0; i < rounds; ++i) {
    std::filesystem::remove(Path("go"));
    std::vector<std::unique_ptr<Child>> targets;
    std::vector<pid_t> pids;
    for (int n = 0; n < processes; ++n) {
      // Few are busy: in each of these, the thread that simulates the GPU spins.
      std::vector<std::string> command = {"hip_late", "-m", "20"};
      if (n % 20 != 3) command.push_back("--idle");
      targets.push_back(Launch(command, absl::StrCat("ready", n)));
      pids.push_back(targets.back()->pid());
    }
    for (int n = 0; n < processes; ++n) {
      ASSERT_TRUE(Eventually(
          [&] { return std::filesystem::exists(Path(absl::StrCat("ready", n))); }));
      YieldToAttachers(targets[n]->pid());
    }
    Attacher attach(Path("many.rwa"), pids);
    if (i % killed_of != 1) {
      EXPECT_TRUE(attach.Attached(processes)) << attach.child().PollOutput();
      const Finished end = attach.Stop();
      // The idle processes have dispatched nothing meanwhile.
      EXPECT_TRUE(end.exited_with(4)) << end.output << end.errors;
      for (const RecordedProcess& process : ReadRecording(Path("many.rwa")).processes) {
        entries.Count(process);
      }
    } else {
      usleep(static_cast<useconds_t>(random() % 1'500'000));  // any instant
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
  // Each process is new, so none is taken over.
  EXPECT_EQ(entries.taken_over, 0);
}

}  // namespace
}  // namespace rocattach::testing_support
