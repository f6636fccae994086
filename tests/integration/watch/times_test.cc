// Each operation has its own times, whatever happens around it: the end of a recording
// with operations in flight, the end of a process without exit handlers, and time
// namespaces.
#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/watch/attacher.h"
#include "tests/integration/watch/harness.h"
#include "tests/temporary_directory.h"
#include "userspace/base/clock.h"
#include "userspace/base/file.h"
#include "userspace/stream/launch_order.h"

namespace rocattach::testing_support {
namespace {

class TimesTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }

  static uint64_t Count(const RecordedProcess& process, uint32_t flag) {
    return static_cast<uint64_t>(std::count_if(
        process.dispatches.begin(), process.dispatches.end(),
        [flag](const rocattach_dispatch& r) { return (r.flags & flag) != 0; }));
  }
  // Number of impossible times of dispatches, compared in the order of their packets.
  static uint32_t Impossible(RecordedProcess process) {
    std::sort(process.dispatches.begin(), process.dispatches.end(),
              [](const rocattach_dispatch& a, const rocattach_dispatch& b) {
                return a.packet_index < b.packet_index;
              });
    LaunchOrder order;
    uint32_t found = 0;
    for (const rocattach_dispatch& record : process.dispatches) {
      found += order.Add(record);
    }
    return found;
  }
  static void ExpectTimesBetween(const RecordedProcess& process, uint64_t begin_ns,
                                 uint64_t end_ns) {
    for (const rocattach_dispatch& r : process.dispatches) {
      EXPECT_GE(r.enqueue_ns, begin_ns);
      EXPECT_GE(r.start_ns, begin_ns);
      EXPECT_LE(r.end_ns, end_ns);
    }
    EXPECT_EQ(process.account.times_not_believable(), 0u);
  }
};

struct End {
  const char* name;
  std::vector<std::string> arguments;
};

class EndTest : public TimesTest, public testing::WithParamInterface<End> {};

INSTANTIATE_TEST_SUITE_P(
    Programs, EndTest,
    testing::Values(
        End{"Each", {"hsa_dispatch", "--kernel-signal", "each", "--exit", "now"}},
        End{"Last", {"hsa_dispatch", "--kernel-signal", "last", "--exit", "now"}},
        End{"None", {"hsa_dispatch", "--kernel-signal", "none", "--exit", "now"}},
        End{"Synchronous", {"hsa_dispatch", "--sync", "--exit", "now"}},
        End{"Killed", {"hsa_dispatch", "--kernel-signal", "none", "--exit", "killed"}},
        End{"Python", {"python3", TargetPath("late_python.py"), "--worker"}}),
    [](const auto& test) { return std::string(test.param.name); });

// The program has waited for all of them, and ends at once, without exit handlers.
TEST_P(EndTest, DispatchesThatWereWaitedForHaveTimes) {
  if (IsSkipped() || HasFatalFailure()) return;
  constexpr int kRuns = 10;
  std::vector<std::string> command = GetParam().arguments;
  command.insert(command.end(), {"-n", "30"});
  command = OnSimgpu(command);
  const Finished native = Child(command).Wait();
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  for (int run = 0; run < kRuns; ++run) {
    const Finished result = Child(command).Wait();
    EXPECT_EQ(result.status, native.status);
    EXPECT_EQ(result.output, native.output);
    EXPECT_EQ(result.errors, native.errors);
  }
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  int recorded = 0;
  uint64_t unfinished = 0;
  for (const RecordedProcess& process : ReadRecording(watcher.recording()).processes) {
    if (process.dispatches.empty()) continue;
    ++recorded;
    EXPECT_EQ(process.dispatches.size(), 30u);
    EXPECT_EQ(Count(process, ROCATTACH_DISPATCH_UNFINISHED),
              process.account.unfinished());
    unfinished += process.account.unfinished();
  }
  EXPECT_EQ(recorded, kRuns);
  EXPECT_EQ(unfinished, 0u);
}

struct Offset {
  const char* name;
  std::vector<std::string> options;
};

class NamespaceTest : public TimesTest, public testing::WithParamInterface<Offset> {
 protected:
  static std::vector<std::string> InNamespace(std::vector<std::string> command) {
    std::vector<std::string> words = {"unshare", "--time", "--fork"};
    const std::vector<std::string>& options = GetParam().options;
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }
  static bool Possible() { return access("/proc/self/ns/time", F_OK) == 0; }
  static const RecordedProcess& Busiest(const Recording& recording) {
    return *std::max_element(recording.processes.begin(), recording.processes.end(),
                             [](const RecordedProcess& a, const RecordedProcess& b) {
                               return a.dispatches.size() < b.dispatches.size();
                             });
  }
};

INSTANTIATE_TEST_SUITE_P(
    Offsets, NamespaceTest,
    testing::Values(Offset{"Behind", {"--boottime", "-1000"}},
                    Offset{"Ahead", {"--boottime", "1000000"}},
                    Offset{"Monotonic", {"--monotonic", "77777"}},
                    Offset{"Both", {"--boottime", "5000", "--monotonic", "-500"}}),
    [](const auto& test) { return std::string(test.param.name); });

// True if the boot time would be before the boot, which cannot be set.
bool TooYoung(const Offset& offset) {
  return std::string(offset.name) == "Behind" && BootNs() < 1001ull * 1'000'000'000;
}

TEST_P(NamespaceTest, IsRecordedFromTheWindowOn) {
  if (!Possible() || TooYoung(GetParam())) GTEST_SKIP() << "no such time namespace";
  const std::vector<std::string> command = InNamespace(OnSimgpu(
      {"hsa_dispatch", "-n", "500", "--kernel-signal", "each", "--copies", "6"}));
  const Finished native = Child(command).Wait();
  ASSERT_TRUE(native.exited_with(0)) << native.errors;
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  const uint64_t begin_ns = BootNs();
  const Finished result = Child(command).Wait();
  const uint64_t end_ns = BootNs();
  EXPECT_EQ(result.status, native.status);
  // The rate differs.
  for (const char* key : {"dispatches", "copies", "bytes", "increment", "accumulate"}) {
    EXPECT_EQ(Reported(result.output, key), Reported(native.output, key)) << key;
  }
  EXPECT_THAT(result.output, testing::HasSubstr("result=ok"));
  EXPECT_EQ(result.errors, native.errors);
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Recording recording = ReadRecording(watcher.recording());
  ASSERT_FALSE(recording.processes.empty());
  const RecordedProcess& process = Busiest(recording);
  EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
      << process.verdict.detail();
  EXPECT_EQ(process.dispatches.size(), 500u);
  EXPECT_EQ(process.copies.size(), 6u);
  EXPECT_EQ(Count(process, ROCATTACH_DISPATCH_UNTIMED), 0u);
  ExpectTimesBetween(process, begin_ns, end_ns);
  for (const rocattach_copy& r : process.copies) {
    EXPECT_GE(r.start_ns, begin_ns);
    EXPECT_LE(r.end_ns, end_ns);
  }
}

TEST_P(NamespaceTest, IsRecordedLate) {
  if (!Possible() || TooYoung(GetParam())) GTEST_SKIP() << "no such time namespace";
  TemporaryDirectory directory;
  const std::string until = directory.path() + "/until";
  Child target(InNamespace(OnSimgpu(
      {"hsa_busy", "-n", "100", "-t", "1", "--rate", "2000", "--until", until})));
  std::string child;
  ASSERT_TRUE(Eventually([&] {
    const std::string pid = std::to_string(target.pid());
    std::ifstream("/proc/" + pid + "/task/" + pid + "/children") >> child;
    return !child.empty() && std::ifstream("/proc/" + child + "/maps").good();
  }));
  const uint64_t begin_ns = BootNs();
  const std::string file = directory.path() + "/run.rwa";
  Attacher attacher(file, {static_cast<pid_t>(std::stoi(child))});
  EXPECT_TRUE(attacher.Attached());
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the time to record
  EXPECT_TRUE(attacher.Stop().exited_with(0));
  const uint64_t end_ns = BootNs();
  std::ofstream(until).put('x');
  EXPECT_TRUE(target.Wait().exited_with(0));
  const Recording recording = ReadRecording(file);
  ASSERT_FALSE(recording.processes.empty());
  const RecordedProcess& process = Busiest(recording);
  EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED);
  EXPECT_GT(process.dispatches.size(), 0u);
  for (const rocattach_dispatch& r : process.dispatches) {
    if ((r.flags & ROCATTACH_DISPATCH_UNTIMED) != 0) continue;
    EXPECT_GE(r.start_ns, begin_ns);
    EXPECT_LE(r.end_ns, end_ns + 1'000'000'000);
  }
  EXPECT_EQ(process.account.times_not_believable(), 0u);
}

// The kernel gives the service the times of the initial time namespace.
TEST_F(TimesTest, AServiceInATimeNamespaceSaysThatItCannotWorkThere) {
  if (access("/proc/self/ns/time", F_OK) != 0) GTEST_SKIP() << "no time namespaces";
  const Finished result = Child({"unshare", "--time", "--fork", "--boottime", "5000",
                                 WatcherPath(), "--json", "--", "true"})
                              .Wait();
  EXPECT_FALSE(result.exited_with(0));
  EXPECT_THAT(result.output + result.errors, testing::HasSubstr("time namespace"));
}

// Runs the threads with this name only when their CPU would otherwise be idle.
void Starve(pid_t pid, const std::string& name) {
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  DIR* const folder = opendir(tasks.c_str());
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder)) {
    std::string comm;
    std::ifstream(tasks + "/" + entry->d_name + "/comm") >> comm;
    const sched_param none = {};
    if (comm == name) sched_setscheduler(atoi(entry->d_name), SCHED_IDLE, &none);
  }
  closedir(folder);
}

// The program reuses its signals at once, and the collector's thread gets no CPU:
// dispatches in flight when a recording ended must not get the times of later ones.
TEST_F(TimesTest, TheEndOfARecordingDoesNotMixUpTimes) {
  TemporaryDirectory directory;
  Child target(OnSimgpu({"hsa_dispatch", "-n", "4000", "-q", "1", "-t", "1",
                         "--kernel-signal", "each", "--rounds", "1000"}),
               {.environment = {"SIMGPU_KERNEL_NS=300000"}});
  for (int run = 0; run < 3; ++run) {
    const std::string file = directory.path() + "/" + std::to_string(run) + ".rwa";
    Attacher attacher(file, {target.pid()});
    ASSERT_TRUE(attacher.Attached());
    Starve(target.pid(), "rocattach");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the time to record
    EXPECT_TRUE(attacher.Stop().exited_with(0));
    const RecordedProcess process = ReadRecording(file).Process(target.pid());
    EXPECT_GT(process.dispatches.size(), 0u);
    EXPECT_EQ(process.account.times_not_believable(), 0u);
    EXPECT_EQ(Impossible(process), 0u);
  }
  target.Signal(SIGKILL);
  target.Wait();
}

}  // namespace
}  // namespace rocattach::testing_support
