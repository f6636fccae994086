// Processes that cost the service as much as they can: windows, reports, arguments,
// copies of the runtime, and large numbers of processes.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tests/integration/hostile/hostile_harness.h"
#include "tests/unit/telemetry/http_client.h"
#include "userspace/base/clock.h"
#include "userspace/base/process.h"

namespace rocattach::testing_support {
namespace {

constexpr uint64_t kDispatches = 20'000;

// The variable can set a larger number: thousands of processes revealed the problems.
int Count(const char* variable, int by_default) {
  int count = by_default;
  const char* text = getenv(variable);
  if (text != nullptr) (void)absl::SimpleAtoi(text, &count);
  return count;
}

// The process ids that `hostile_load mappers` prints.
std::vector<pid_t> Mappers(const std::string& output) {
  std::vector<pid_t> pids;
  for (absl::string_view line : absl::StrSplit(output, '\n')) {
    pid_t pid = 0;
    if (absl::ConsumePrefix(&line, "mapper=") && absl::SimpleAtoi(line, &pid)) {
      pids.push_back(pid);
    }
  }
  return pids;
}

// The thread that traces the process; 0 if none does, or the process is gone.
pid_t TracerOf(pid_t pid) {
  auto info = ReadProcessInfo(pid);
  return info.ok() ? info->tracer : 0;
}

class HostileLoadTest : public ::testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }
  static std::vector<std::string> Auto(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"--auto", "--library", EmptyRuntime()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  // Number of windows of all processes, opened and refused; -1 without a summary.
  static int64_t Windows(const Recording& recording) {
    if (!recording.summary.has_value()) return -1;
    return static_cast<int64_t>(recording.summary->probe_windows() +
                                recording.summary->windows_over_budget());
  }
  // Number of verdicts with this reason on the adversary's processes.
  static int Verdicts(const Recording& recording, v1::AttachReason reason) {
    int count = 0;
    for (const RecordedProcess& process : recording.processes) {
      if (process.process.uid() != kAdversaryUid) continue;
      for (const v1::WindowEvent& window : process.windows) {
        if (window.reason() == reason) ++count;
      }
    }
    return count;
  }
};

// Processors that a service has used since the object was made: 1 is a whole one.
class CpuShare {
 public:
  explicit CpuShare(const LiveService& service)
      : service_(service), cpu_ns_(service.use().cpu_ns), begin_ns_(BootNs()) {}
  double Now() const {
    return static_cast<double>(service_.use().cpu_ns - cpu_ns_) /
           static_cast<double>(BootNs() - begin_ns_);
  }

 private:
  const LiveService& service_;
  const uint64_t cpu_ns_, begin_ns_;
};

// A process reports again and again that its runtime was shut down, and calls hsa_init.
// The service's threads have real-time priority, so others lack the CPU time they use.
TEST_F(HostileLoadTest, WindowsWithoutEnd) {
  // A lower rate than any machine attaches at.
  LiveService service(Auto({"--windows-per-second", "20"}));
  ASSERT_TRUE(service.ready());
  Neighbour neighbour(kDispatches);
  const CpuShare cpu(service);
  Adversary adversary("hostile_load", {"reopen", CollectorPath(), "3"});
  const Finished finished = adversary.Wait();
  EXPECT_LT(cpu.Now(), 0.6);
  ASSERT_TRUE(finished.exited_with(0)) << finished.errors;
  neighbour.Finish();
  service.ExpectHealthy(/*spare_descriptors=*/4);
  const Recording recording = service.Stop();
  neighbour.ExpectComplete(recording);
  const int64_t windows = Reported(finished.output, "windows");
  // All of them are accounted for, and the neighbour's. A call between the service's
  // two checks of a window that it releases does not open another one.
  EXPECT_LE(Windows(recording), windows + 1);
  EXPECT_GE(Windows(recording), windows - windows / 100);
  EXPECT_GT(recording.summary->windows_over_budget(), 0u) << windows;
  EXPECT_GT(Verdicts(recording, v1::ATTACH_REASON_OVER_BUDGET), 0);
}

// A process repeatedly reports memory that it does not have.
TEST_F(HostileLoadTest, ReportsWithoutEnd) {
  LiveService service(Auto());
  ASSERT_TRUE(service.ready());
  Neighbour neighbour(kDispatches);
  const CpuShare cpu(service);
  Adversary adversary("hostile_load", {"report", CollectorPath(), "3"});
  const Finished finished = adversary.Wait();
  EXPECT_LT(cpu.Now(), 0.6);
  ASSERT_TRUE(finished.exited_with(0)) << finished.errors;
  EXPECT_GT(Reported(finished.output, "reports"), 1000);
  neighbour.Finish();
  service.ExpectHealthy(/*spare_descriptors=*/4);
  const Recording recording = service.Stop();
  neighbour.ExpectComplete(recording);
  EXPECT_EQ(recording.summary->events_lost(), 0u);
}

// Processes that end at once, many more than the user may start.
TEST_F(HostileLoadTest, ProcessesWithoutEnd) {
  LiveService service(Auto({"--windows-per-second", "20", "--metrics-listen", "0"}));
  ASSERT_TRUE(service.ready());
  Neighbour neighbour(kDispatches);
  Adversary adversary("hostile_load", {"fork", "3"});
  const Finished finished = adversary.Wait();
  ASSERT_TRUE(finished.exited_with(0)) << finished.errors;
  neighbour.Finish();
  service.ExpectHealthy(/*spare_descriptors=*/64);
  const auto address =
      ParseListenAddress(service.watcher().Events("ready").at(0).value("metrics", ""));
  ASSERT_TRUE(address.ok()) << address.status();
  const std::string metrics = Get(*address, "/metrics");
  const Recording recording = service.Stop();
  neighbour.ExpectComplete(recording);
  const int64_t processes = Reported(finished.output, "processes");
  EXPECT_EQ(Windows(recording), processes + 1);
  // A burst of 40, and 20 a second.
  const uint64_t over_budget = recording.summary->windows_over_budget();
  EXPECT_GT(over_budget, 0u);
  // While the service ran, each one was counted, not only those that have an event.
  EXPECT_NE(metrics.find(absl::StrCat("\nrocattach_windows_over_budget_total ",
                                      over_budget, "\n")),
            std::string::npos)
      << metrics;
  const auto refused = service.watcher().Events("summary").back()["over_budget"];
  ASSERT_EQ(refused.size(), 1u) << refused;
  EXPECT_EQ(refused[0]["uid"], kAdversaryUid);
  EXPECT_EQ(refused[0]["windows"], recording.summary->windows_over_budget());
  bool named = false;
  for (const auto& event : service.watcher().Events("window")) {
    const std::string detail = event["detail"];
    named |= event["verdict"] == "refused" &&
             event["reason"] == "ATTACH_REASON_OVER_BUDGET" &&
             detail.find("--windows-per-second") != std::string::npos;
  }
  EXPECT_TRUE(named);
}

// A process that keeps replacing its program has a record and an end for each program.
TEST_F(HostileLoadTest, ProgramsWithoutEnd) {
  LiveService service(Auto());
  ASSERT_TRUE(service.ready());
  Neighbour neighbour(kDispatches);
  Adversary adversary("hostile_load", {"exec", "200"});
  ASSERT_TRUE(adversary.Wait().exited_with(0));
  neighbour.Finish();
  service.ExpectHealthy(/*spare_descriptors=*/4);
  const Recording recording = service.Stop();
  neighbour.ExpectComplete(recording);
  EXPECT_EQ(Windows(recording), 201 + 1);
}

// Many attached processes that do nothing. The service is started with a lower limit on
// descriptors than their number, such as a shell sets.
TEST_F(HostileLoadTest, IdleProcesses) {
  const int processes = Count("ROCATTACH_HOSTILE_PROCESSES", 300);
  rlimit limit = {}, low = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  low = limit;
  low.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  LiveService service(Auto({"--processes-per-user", "4000"}));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_TRUE(service.ready());
  Adversary adversary("hostile_load", {"idle", absl::StrCat(processes)});
  ASSERT_TRUE(adversary.Says("idle="));
  Neighbour neighbour(kDispatches);
  neighbour.Finish();
  service.ExpectHealthy(/*spare_descriptors=*/2 * processes + 16);
  EXPECT_GE(service.use().descriptors, processes) << "they are watched";
  const Recording recording = service.Stop();
  neighbour.ExpectComplete(recording);
  EXPECT_EQ(Windows(recording), processes + 1);
  EXPECT_EQ(Verdicts(recording, v1::ATTACH_REASON_OVER_BUDGET), 0);
  EXPECT_EQ(Verdicts(recording, v1::ATTACH_REASON_SERVICE_RESOURCES), 0);
}

TEST_F(HostileLoadTest, MoreProcessesThanAUserMayHave) {
  LiveService service(Auto({"--processes-per-user", "30"}));
  ASSERT_TRUE(service.ready());
  Adversary adversary("hostile_load", {"idle", "50"});
  ASSERT_TRUE(adversary.Says("idle="));
  Neighbour neighbour(kDispatches);
  neighbour.Finish();
  const Recording recording = service.Stop();
  neighbour.ExpectComplete(recording);
  EXPECT_EQ(recording.summary->windows_over_budget(), 20u);
  EXPECT_EQ(Windows(recording), 50 + 1);
}

// In hold mode "signal" a process costs something before it has a window: it is seized
// as soon as it maps the runtime.
TEST_F(HostileLoadTest, ProcessesThatMapTheRuntimeAndNeverStartIt) {
  constexpr int kProcesses = 100, kMostSeized = 64;
  LiveService service(Auto({"--hold", "signal"}));
  ASSERT_TRUE(service.ready());
  Adversary adversary("hostile_load",
                      {"mappers", absl::StrCat(kProcesses), EmptyRuntime()});
  ASSERT_TRUE(adversary.Says("mappers="));
  const std::vector<pid_t> mappers = Mappers(adversary.Output());
  ASSERT_EQ(mappers.size(), size_t{kProcesses});
  int seized = 0;
  EXPECT_TRUE(Eventually([&] {
    seized = 0;
    for (pid_t pid : mappers) seized += TracerOf(pid) != 0 ? 1 : 0;
    return seized >= kMostSeized / 2;
  }));
  // The adversary itself, which is linked with the runtime, is one of them.
  EXPECT_LE(seized, kMostSeized);
  Neighbour neighbour(kDispatches, {"--wait-msec", kTimeToSeize});
  neighbour.Finish();
  seized = 0;
  for (pid_t pid : mappers) seized += TracerOf(pid) != 0 ? 1 : 0;
  EXPECT_LE(seized, kMostSeized);
  // The service has a thread for each of them, which a descriptor wakes.
  service.ExpectHealthy(/*spare_descriptors=*/kMostSeized + 16);
  neighbour.ExpectComplete(service.Stop());
}

// Processes that are gone do not count.
TEST_F(HostileLoadTest, ManyProcessesOneAfterTheOther) {
  LiveService service(Auto({"--processes-per-user", "12"}));
  ASSERT_TRUE(service.ready());
  Adversary adversary("hostile_load", {"fork", "0.3"});
  const Finished finished = adversary.Wait();
  ASSERT_TRUE(finished.exited_with(0)) << finished.errors;
  EXPECT_GT(Reported(finished.output, "processes"), 12);
  const Recording recording = service.Stop();
  EXPECT_EQ(recording.summary->windows_over_budget(), 0u);
}

TEST_F(HostileLoadTest, MegabytesOfArguments) {
  LiveService service(Auto());
  ASSERT_TRUE(service.ready());
  const uint64_t before = service.use().rss_bytes;
  Adversary adversary("hostile_load", {"arguments", "1000000"});
  const Finished finished = adversary.Wait();
  ASSERT_TRUE(finished.exited_with(0)) << finished.errors;
  EXPECT_GT(Reported(finished.output, "arguments"), 400'000);
  const pid_t pid = adversary.pid();
  service.ExpectHealthy(/*spare_descriptors=*/4);
  EXPECT_LT(service.use().peak_rss_bytes, before + (12u << 20));
  const RecordedProcess process = service.Stop().Process(pid);
  EXPECT_TRUE(process.process.arguments_cut());
  EXPECT_GE(process.process.arguments_size(), 100);
}

// Files named like the runtime, mapped by an adversary: each would cost a probe.
TEST_F(HostileLoadTest, CopiesOfTheRuntime) {
  const int copies = Count("ROCATTACH_HOSTILE_COPIES", 100);
  ExecutableDirectory directory;
  ASSERT_EQ(chmod(directory.path().c_str(), 0755), 0);
  std::vector<std::string> words = {"map"};
  for (int i = 0; i < copies; ++i) {
    words.push_back(absl::StrCat(directory.path(), "/libhsa-runtime64-copy", i, ".so"));
    std::filesystem::copy_file(EmptyRuntime(), words.back());
    ASSERT_EQ(chown(words.back().c_str(), kAdversaryUid, kAdversaryUid), 0);
  }
  Adversary adversary("hostile_load", words);
  ASSERT_TRUE(adversary.Says("mapped="));
  LiveService service(Auto());
  ASSERT_TRUE(service.ready());
  Neighbour neighbour(kDispatches);
  neighbour.Finish();
  const auto ready = service.watcher().Events("ready").back();
  int theirs = 0;
  for (const std::string library : ready["libraries"]) {
    if (library.find(directory.path()) != std::string::npos) ++theirs;
  }
  EXPECT_LE(theirs, 32);
  service.ExpectHealthy(/*spare_descriptors=*/4);
  neighbour.ExpectComplete(service.Stop());
}

}  // namespace
}  // namespace rocattach::testing_support
