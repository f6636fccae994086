// Many processes at once, and a service that is killed at random instants.
//   ROCATTACH_STRESS=4               multiplies the sizes
//   ROCATTACH_TEST_LAUNCHES=10000    number of launches in bursts (default 500)
//   ROCATTACH_TEST_BURST=100         number at once (default 50)
#include <gtest/gtest.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/kill_rounds.h"
#include "tests/integration/watch/terminal.h"

namespace rocattach::testing_support {
namespace {

int NumberFrom(const char* variable, int by_default) {
  const char* text = getenv(variable);
  return text == nullptr ? by_default
                         : std::max(1, static_cast<int>(strtol(text, nullptr, 10)));
}

// Releases are tested with a factor of 4.
int Scaled(int count) {
  const char* factor = getenv("ROCATTACH_STRESS");
  return factor == nullptr
             ? count
             : std::max(1, static_cast<int>(count * strtod(factor, nullptr)));
}

class StressTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }
};

// The command of one launch of a burst, and its output without a service.
struct Kind {
  std::vector<std::string> command;
  std::string output;
};

// The output without the rate, the only word that differs from run to run.
std::string WithoutRate(std::string output) {
  for (size_t at = output.find("rate="); at != std::string::npos;
       at = output.find("rate=", at)) {
    output.erase(at, output.find(' ', at) - at);
  }
  return output;
}

std::vector<Kind> Kinds() {
  std::vector<Kind> kinds = {
      {{"hsa_dispatch", "-n", "20"}, ""},
      {{"hsa_dispatch", "-n", "200", "-t", "2", "-q", "2", "--kernel-signal", "none"},
       ""},
      {{"hsa_exit_early"}, ""},
      {{"hsa_dispatch", "-n", "10", "--copies", "2", "--exit", "_exit"}, ""},
      {{"hsa_dispatch", "-n", "30", "--kernel-signal", "last", "--exit", "sigkill"},
       ""},
      {{"hsa_init_threads"}, ""},
  };
  for (Kind& kind : kinds) {
    kind.output = WithoutRate(RunTarget(kind.command).output);
    EXPECT_NE(kind.output.find("result=ok"), std::string::npos) << kind.output;
  }
  return kinds;
}

TEST_F(StressTest, BurstsMissNoWindow) {
  const int most = NumberFrom("ROCATTACH_TEST_LAUNCHES", Scaled(500));
  const int at_once = NumberFrom("ROCATTACH_TEST_BURST", 50);
  std::vector<Kind> kinds = Kinds();
  // Windows of a burst queue up: a late process waits for those before it.
  WatcherProcess watcher({"--auto", "--hold-timeout-msec", "10000"});
  ASSERT_TRUE(watcher.ready());
  struct Launch {
    std::unique_ptr<Child> child;
    const Kind* kind;
    pid_t pid;
    Finished result;
  };
  std::vector<Launch> launches;
  while (launches.size() < static_cast<size_t>(most)) {
    const size_t first = launches.size();
    for (int i = 0; i < at_once; ++i) {
      const Kind& kind = kinds[static_cast<size_t>(i) % kinds.size()];
      auto child = std::make_unique<Child>(OnSimgpu(kind.command));
      pid_t pid = child->pid();
      launches.push_back({std::move(child), &kind, pid, {}});
    }
    for (size_t i = first; i < launches.size(); ++i) {
      launches[i].result = launches[i].child->Wait();
      launches[i].child.reset();
    }
    // The service's output would fill the pipe.
    (void)watcher.PollEvents("window");
  }
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  Recording recording = ReadRecording(watcher.recording());
  ASSERT_TRUE(recording.summary.has_value());
  printf("launches=%zu attached=%llu missed=%llu refused=%llu\n", launches.size(),
         static_cast<unsigned long long>(recording.summary->windows_attached()),
         static_cast<unsigned long long>(recording.summary->windows_missed()),
         static_cast<unsigned long long>(recording.summary->windows_refused()));
  EXPECT_EQ(recording.summary->events_lost(), 0u);
  // Other GPU processes on the machine may have been recorded too: only ours count.
  // Among many launches, several may have the same process ID, one after another.
  std::map<std::pair<pid_t, uint64_t>, const RecordedProcess*> by_start;
  for (const RecordedProcess& process : recording.processes) {
    by_start[{static_cast<pid_t>(process.process.pid()), process.process.start_ns()}] =
        &process;
  }
  for (const Launch& launch : launches) {
    const auto found = by_start.lower_bound({launch.pid, 0});
    ASSERT_TRUE(found != by_start.end() && found->first.first == launch.pid)
        << "pid " << launch.pid;
    const RecordedProcess& process = *found->second;
    by_start.erase(found);
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
        << process.verdict.detail();
    bool killed = WIFSIGNALED(launch.result.status);
    EXPECT_EQ(killed, launch.kind->command.back() == "sigkill");
    EXPECT_TRUE(killed || launch.result.exited_with(0)) << launch.result.errors;
    EXPECT_EQ(launch.result.errors, "") << "a watched target says nothing new";
    EXPECT_EQ(WithoutRate(launch.result.output), launch.kind->output);
    EXPECT_EQ(static_cast<int64_t>(process.dispatches.size()),
              Reported(launch.result.output, "dispatches"))
        << process.Explain();
    EXPECT_EQ(process.dropped(), 0u);
  }
  // No process was recorded twice.
  for (const Launch& launch : launches) {
    const auto left = by_start.lower_bound({launch.pid, 0});
    EXPECT_TRUE(left == by_start.end() || left->first.first != launch.pid)
        << "pid " << launch.pid;
  }
}

// The service is killed with SIGKILL while it attaches to processes: each of them ends
// as it does without a service.
TEST_F(StressTest, AServiceKilledAtRandomInstantsHarmsNobody) {
  KillRounds kills;
  kills.service = {"--auto", "--hold-timeout-msec", "1000"};
  kills.rounds = Scaled(25);
  kills.batch_us = 120'000;
  kills.targets.assign(10, {"hsa_dispatch", "-n", "50"});
  kills.check = [](const Finished& result) {
    EXPECT_EQ(Reported(result.output, "dispatches"), 50);
  };
  ExpectNobodyIsHarmed(kills);
}

// More events occur than fit while the service is stopped: no process is harmed, and
// what was lost is counted, shown in a message, and reported.
TEST_F(StressTest, LostEventsAreCounted) {
  constexpr uint64_t kChildren = 6000;
  ExecutableDirectory directory;
  // No budgets: they would suppress most windows.
  Terminal watcher({WatcherPath(), "--auto", "--hold-timeout-msec", "1",
                    "--windows-per-second", "0", "--processes-per-user", "0",
                    "--collector", CollectorPath(), "-d", directory.path(), "-o",
                    "run"});
  ASSERT_NE(watcher.ReadUntil("output ").find("output "), std::string::npos);
  // The process that does the work; signals go to its parent.
  pid_t service = 0;
  std::ifstream("/proc/" + std::to_string(watcher.pid()) + "/task/" +
                std::to_string(watcher.pid()) + "/children") >>
      service;
  ASSERT_GT(service, 0);
  kill(service, SIGSTOP);
  Finished storm =
      Child({TargetPath("hsa_init_storm"), "-c", std::to_string(kChildren)}).Wait();
  kill(service, SIGCONT);
  EXPECT_TRUE(storm.exited_with(0)) << storm.output << storm.errors;
  watcher.Type("\x03");
  int status = watcher.Wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_NE(watcher.seen().find(" kernel events were lost: windows may have been"),
            std::string::npos);

  const std::string path = directory.path() + "/run.rwa";
  Recording recording = ReadRecording(path);
  ASSERT_TRUE(recording.summary.has_value());
  const v1::WatcherSummary& summary = *recording.summary;
  EXPECT_GT(summary.events_lost(), 0u);
  EXPECT_GE(summary.probe_windows(), kChildren);
  // Each window was recorded, or its event is among those that were lost.
  EXPECT_GE(recording.processes.size() + summary.events_lost(), kChildren);
  EXPECT_LT(recording.processes.size(), kChildren);
  for (const RecordedProcess& process : recording.processes) {
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_MISSED)
        << process.verdict.detail();
  }
  Finished report = Child({ClientPath(), "report", path}).Wait();
  EXPECT_NE(report.output.find(" events lost"), std::string::npos) << report.output;
}

}  // namespace
}  // namespace rocattach::testing_support
