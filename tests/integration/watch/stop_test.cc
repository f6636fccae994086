// Deadlines, and a service that is stopped: it must not keep any process held.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/integration/watch/harness.h"
#include "userspace/base/clock.h"

namespace rocattach::testing_support {
namespace {

constexpr uint64_t kMsec = 1'000'000;

class StopTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }
};

// A value of /proc/PID/status.
std::string StatusOf(pid_t pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name + ":\t", 0) == 0) return line.substr(name.size() + 2);
  }
  return "";
}
bool IsStopped(pid_t pid) {
  return StatusOf(pid, "State").rfind("T", 0) == 0;
}
void StopNow(pid_t pid) {
  kill(pid, SIGSTOP);
  EXPECT_TRUE(Eventually([pid] { return IsStopped(pid); }));
}

// A thread that gets little of its processor is held until the deadline in elapsed
// time, and not until it has run for that long. How long a thread waits for a
// processor depends on the scheduler, so the bound exceeds the deadline by several
// such waits.
TEST_F(StopTest, ADeadlineIsTimeOnTheWall) {
  constexpr int kHogs = 4;
  constexpr uint64_t kBoundNs = 2500 * kMsec;
  WatcherProcess watcher({"--auto", "--hold-timeout-msec", "100"});
  ASSERT_TRUE(watcher.ready());
  HungService hung(watcher.pid());
  cpu_set_t one, all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  CPU_ZERO(&one);
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    CPU_SET(cpu, &one);
    break;
  }
  // The target has started, and waits, before its processor gets busy.
  Child target(OnSimgpu({"hsa_dispatch", "-n", "5", "--wait-msec", "1500"}));
  EXPECT_TRUE(Eventually([&] {
    std::ifstream call("/proc/" + std::to_string(target.pid()) + "/syscall");
    std::string number;
    call >> number;
    return number == "230" || number == "35";  // clock_nanosleep, nanosleep
  }));
  std::vector<std::unique_ptr<Child>> hogs;
  for (int i = 0; i < kHogs; ++i) {
    hogs.push_back(
        std::make_unique<Child>(std::vector<std::string>{TargetPath("spin")}));
    ASSERT_EQ(sched_setaffinity(hogs.back()->pid(), sizeof(one), &one), 0);
  }
  ASSERT_EQ(sched_setaffinity(target.pid(), sizeof(one), &one), 0);
  ASSERT_EQ(setpriority(PRIO_PROCESS, static_cast<id_t>(target.pid()), 19), 0);
  // The longest hold, and the wait before it: when the hold ends cannot be observed.
  const pid_t pid = target.pid();
  usleep(1'500'000 + kBoundNs / 1000);
  hogs.clear();
  const Finished result = target.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
  hung.Release();
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_MISSED);
  EXPECT_EQ(process.verdict.hold_end(), v1::HOLD_END_DEADLINE);
  EXPECT_GE(process.verdict.probe_ns(), 100 * kMsec);
  EXPECT_LT(process.verdict.probe_ns(), kBoundNs);
}

// A real-time thread that spins for longer than RLIMIT_RTTIME is killed by SIGXCPU.
TEST_F(StopTest, ARealTimeThreadIsLetGoBeforeItsLimit) {
  std::vector<std::string> command = {"prlimit", "--rttime=400000:400000", "chrt", "-f",
                                      "1"};
  for (std::string& word : OnSimgpu({"hsa_dispatch", "-n", "5"})) {
    command.push_back(std::move(word));
  }
  const Finished native = Child(command).Wait();
  ASSERT_TRUE(native.exited_with(0)) << native.errors;
  WatcherProcess watcher({"--auto", "--hold-timeout-msec", "3000"});
  ASSERT_TRUE(watcher.ready());
  {
    HungService hung(watcher.pid());
    const Finished result = Child(command).Wait();
    EXPECT_EQ(result.status, native.status);
    EXPECT_EQ(Reported(result.output, "dispatches"), 5);
    EXPECT_EQ(result.errors, native.errors);
  }
  EXPECT_TRUE(Child(command).Wait().exited_with(0));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Recording recording = ReadRecording(watcher.recording());
  ASSERT_EQ(recording.processes.size(), 2u);
  EXPECT_EQ(recording.processes[0].verdict.hold_end(), v1::HOLD_END_DEADLINE);
  EXPECT_EQ(recording.processes[1].verdict.state(), v1::WINDOW_STATE_ATTACHED);
}

class StopModeTest : public StopTest,
                     public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(HoldModes, StopModeTest, testing::Values("yielding", "signal"),
                         [](const auto& test) { return std::string(test.param); });

// Processes that start their runtime while the service is stopped are not held.
TEST_P(StopModeTest, AStoppedServiceHoldsNoProcess) {
  if (IsSkipped() || HasFatalFailure()) return;
  const Finished native = RunTarget({"hsa_init_threads"});
  WatcherProcess watcher(
      {"--auto", "--hold", GetParam(), "--hold-timeout-msec", "10000"});
  ASSERT_TRUE(watcher.ready());
  StopNow(watcher.pid());
  for (int i = 0; i < 3; ++i) {
    // Held to the deadline, each would take ten seconds.
    const uint64_t begin_ns = BootNs();
    const Finished result = RunTarget({"hsa_init_threads"});
    EXPECT_EQ(result.status, native.status);
    EXPECT_EQ(result.output, native.output);
    EXPECT_EQ(result.errors, native.errors);
    EXPECT_LT(BootNs() - begin_ns, 9000 * kMsec);
  }
  EXPECT_TRUE(IsStopped(watcher.pid()));
  kill(watcher.pid(), SIGCONT);
  const Finished after =
      RunTarget({"hsa_dispatch", "-n", "5", "--wait-msec", kTimeToSeize});
  EXPECT_TRUE(after.exited_with(0));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Recording recording = ReadRecording(watcher.recording());
  ASSERT_EQ(recording.processes.size(), 4u);
  for (const RecordedProcess& process : recording.processes) {
    if (process.process.comm() == "hsa_dispatch") {
      EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
          << process.verdict.detail();
      continue;
    }
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_MISSED);
    EXPECT_EQ(process.verdict.mode(), v1::WINDOW_MODE_UNSERVED);
    EXPECT_NE(process.verdict.detail().find("was stopped"), std::string::npos)
        << process.verdict.detail();
  }
  EXPECT_EQ(recording.summary->hold_deadlines(), 0u);
}

// A hold that is in progress ends when the service stops.
TEST_F(StopTest, AHoldEndsWhenTheServiceStops) {
  WatcherProcess watcher({"--auto", "--hold-timeout-msec", "10000"});
  ASSERT_TRUE(watcher.ready());
  pid_t pid = 0;
  {
    HungService hung(watcher.pid());
    Child target(OnSimgpu({"hsa_dispatch", "-n", "5"}));
    pid = target.pid();
    EXPECT_TRUE(EventuallyHeld(pid));
    kill(watcher.pid(), SIGSTOP);
    // A thread in a ptrace stop stops for the signal once the tracer lets it continue.
    const uint64_t begin_ns = BootNs();
    hung.Release();
    const Finished result = target.Wait();
    EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
    EXPECT_LT(BootNs() - begin_ns, 8000 * kMsec);
  }
  kill(watcher.pid(), SIGCONT);
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

// Signals still arrive in a process that was seized in advance.
TEST_F(StopTest, SignalsDoNotWaitForAStoppedService) {
  constexpr int64_t kBoundMsec = 1000;
  const Finished native = RunTarget({"hsa_signals", "500"});
  ASSERT_TRUE(native.exited_with(0)) << native.errors;
  WatcherProcess watcher({"--auto", "--hold", "signal"});
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimgpu({"hsa_signals", "3000"}));
  EXPECT_TRUE(Eventually([&] {
    const std::string tracer = StatusOf(target.pid(), "TracerPid");
    return !tracer.empty() && tracer != "0";
  })) << "was not seized";
  StopNow(watcher.pid());
  // The target reaches its end although the service is not continued.
  EXPECT_TRUE(Eventually([&] {
    return target.PollOutput().find("result=") != std::string::npos;
  })) << "stands still";
  EXPECT_TRUE(IsStopped(watcher.pid())) << "was left running";
  kill(watcher.pid(), SIGCONT);
  const Finished result = target.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
  EXPECT_LT(Reported(result.output, "longest_msec"), kBoundMsec);
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

// A user stops the service, continues it as soon as it is stopped, and stops it again:
// the last signal counts, whatever the guard of the service does meanwhile.
TEST_F(StopTest, TheLastOfManyStopsCounts) {
  WatcherProcess watcher({"--auto", "--hold", "signal"});
  ASSERT_TRUE(watcher.ready());
  for (int round = 0; round < 10 && !HasFailure(); ++round) {
    // The target is seized in advance, so the guard must release it at every stop.
    Child target(OnSimgpu({"hsa_signals", "300"}));
    EXPECT_TRUE(Eventually([&] {
      const std::string tracer = StatusOf(target.pid(), "TracerPid");
      return !tracer.empty() && tracer != "0";
    })) << "was not seized";
    kill(watcher.pid(), SIGSTOP);
    // When the target is released, the guard is about to stop the service again.
    for (int i = 0; i < 100'000 && StatusOf(target.pid(), "TracerPid") != "0"; ++i)
      continue;
    // Not Eventually(): its pauses would give the guard the time to finish.
    for (int i = 0; i < 100'000 && !IsStopped(watcher.pid()); ++i) continue;
    kill(watcher.pid(), SIGCONT);
    usleep(60);
    kill(watcher.pid(), SIGSTOP);
    usleep(200'000);  // nothing happens for a while
    EXPECT_TRUE(IsStopped(watcher.pid())) << "was left running in round " << round;
    kill(watcher.pid(), SIGCONT);
    EXPECT_TRUE(Eventually([&] { return !IsStopped(watcher.pid()); }));
    EXPECT_TRUE(target.Wait().exited_with(0));
  }
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

// The service is stopped at random instants of attaches, and stays stopped until all
// processes have ended as they do without a service. ROCATTACH_STRESS multiplies the
// number of rounds.
TEST_P(StopModeTest, AStopAtAnyInstantHarmsNoProcess) {
  if (IsSkipped() || HasFatalFailure()) return;
  const char* scale = getenv("ROCATTACH_STRESS");
  const int rounds = std::max(1, static_cast<int>(10 * (scale ? atof(scale) : 1)));
  const std::vector<std::vector<std::string>> commands = {
      {"hsa_dispatch", "-n", "20"}, {"hsa_init_threads"}, {"hsa_exit_early"}};
  std::vector<Finished> native;
  for (const auto& command : commands) native.push_back(RunTarget(command));
  WatcherProcess watcher(
      {"--auto", "--hold", GetParam(), "--hold-timeout-msec", "250"});
  ASSERT_TRUE(watcher.ready());
  std::mt19937 random(std::random_device{}());
  std::uniform_int_distribution<useconds_t> instant(0, 150'000);
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    std::vector<std::unique_ptr<Child>> targets;
    for (size_t i = 0; i < 6; ++i) {
      targets.push_back(
          std::make_unique<Child>(OnSimgpu(commands[i % commands.size()])));
    }
    usleep(instant(random));
    kill(watcher.pid(), SIGSTOP);
    for (size_t i = 0; i < targets.size(); ++i) {
      const Finished result = targets[i]->Wait();
      EXPECT_EQ(result.status, native[i % commands.size()].status);
      EXPECT_EQ(result.errors, native[i % commands.size()].errors);
      EXPECT_EQ(Reported(result.output, "dispatches"),
                Reported(native[i % commands.size()].output, "dispatches"));
    }
    EXPECT_TRUE(Eventually([&] { return IsStopped(watcher.pid()); }));
    kill(watcher.pid(), SIGCONT);
    EXPECT_TRUE(Eventually([&] { return !IsStopped(watcher.pid()); }));
  }
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

}  // namespace
}  // namespace rocattach::testing_support
