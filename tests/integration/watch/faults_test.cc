// Faults as they occur on real machines: each results in a clear message or verdict,
// and none harms the process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/terminal.h"
#include "tests/places.h"
#include "userspace/base/clock.h"

namespace rocattach::testing_support {
namespace {

class FaultsTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }
  ExecutableDirectory directory_;

  Finished Watch(std::vector<std::string> arguments) {
    std::vector<std::string> words = {WatcherPath(), "--collector", CollectorPath()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return Child(words).Wait();
  }
};

TEST_F(FaultsTest, AnUnusableOutputDirectory) {
  Finished result = Watch({"--auto", "-d", "/dev/null/x"});
  EXPECT_TRUE(result.exited_with(3));
  EXPECT_NE(result.errors.find("/dev/null"), std::string::npos) << result.errors;
}

TEST_F(FaultsTest, NoPrivileges) {
  if (!EverybodyReaches(WatcherPath())) {
    GTEST_SKIP() << "needs a build that every user reaches";
  }
  std::filesystem::permissions(directory_.path(), std::filesystem::perms::all);
  Finished result = Child({WatcherPath(), "--auto", "--collector", CollectorPath(),
                           "-d", directory_.path()},
                          {.uid = 65534})
                        .Wait();
  EXPECT_TRUE(result.exited_with(3));
  EXPECT_NE(result.errors.find("CAP_BPF"), std::string::npos) << result.errors;
}

TEST_F(FaultsTest, ForeignAndBrokenLibraries) {
  std::string path = directory_.path() + "/libhsa-runtime64.so.1";
  std::ofstream(path) << "#!/bin/sh\n";
  Finished result =
      Watch({"--library", path, "--library", "/usr/lib/x86_64-linux-gnu/libc.so.6",
             "-d", directory_.path(), "--duration-msec", "50"});
  EXPECT_TRUE(result.exited_with(0));
  EXPECT_NE(result.errors.find("skipped " + path), std::string::npos) << result.errors;
  EXPECT_NE(result.errors.find("skipped /usr/lib/x86_64-linux-gnu/libc.so.6"),
            std::string::npos)
      << result.errors;
}

TEST_F(FaultsTest, AMissingCollector) {
  Finished result = Child({WatcherPath(), "--auto", "--collector", "/no/collector.so",
                           "-d", directory_.path()})
                        .Wait();
  EXPECT_TRUE(result.exited_with(3));
  EXPECT_NE(result.errors.find("/no/collector.so"), std::string::npos) << result.errors;
}

// The disk fills up during the run: what was recorded stays readable, the loss is
// reported, and the target is not affected.
TEST_F(FaultsTest, AFullDisk) {
  std::string disk = directory_.path() + "/disk";
  std::filesystem::create_directory(disk);
  ASSERT_EQ(mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64k"), 0) << strerror(errno);
  std::vector<std::string> words = {WatcherPath(),   "--auto", "--json", "--collector",
                                    CollectorPath(), "-d",     disk,     "-o",
                                    "run",           "--"};
  for (const std::string& word : OnSimgpu(
           {"hsa_dispatch", "-n", "300000", "-t", "2", "--kernel-signal", "none"})) {
    words.push_back(word);
  }
  Finished result = Child(words, {.environment = {"SIMGPU_KERNEL_NS=0"}}).Wait();
  Recording recording = ReadRecording(disk + "/run.rwa");
  EXPECT_EQ(umount(disk.c_str()), 0) << strerror(errno);
  EXPECT_NE(result.output.find("result=ok"), std::string::npos) << result.output;
  EXPECT_TRUE(result.exited_with(1)) << "an incomplete recording is not a success";
  ASSERT_EQ(recording.processes.size(), 1u);
  const uint64_t kept = recording.processes[0].dispatches.size();
  EXPECT_GT(kept, 100u);
  // The account did not fit on the disk either: the service prints it.
  nlohmann::json end, summary;
  std::istringstream lines(result.errors);
  for (std::string line; std::getline(lines, line);) {
    auto event = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    ASSERT_FALSE(event.is_discarded()) << line;
    if (event["event"] == "end") end = event;
    if (event["event"] == "summary") summary = event;
  }
  EXPECT_NE(summary["output_error"].get<std::string>().find("run.rwa"),
            std::string::npos)
      << summary;
  EXPECT_EQ(end["dispatches"], kept);
  EXPECT_GT(end["dropped"], 0);
  EXPECT_EQ(end["dispatches"].get<int64_t>() + end["dropped"].get<int64_t>() +
                end["unseen"].get<int64_t>(),
            Reported(result.output, "dispatches"));
}

// A process under a debugger is not attached to.
TEST_F(FaultsTest, ATargetThatIsTracedAlready) {
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  int output[2];
  ASSERT_EQ(pipe2(output, O_CLOEXEC), 0);
  std::vector<std::string> words = OnSimgpu({"hsa_dispatch", "-n", "6"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = fork();
  if (child == 0) {
    dup2(output[1], 1);
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(output[1]);
  int status = 0;
  const auto has_ended = [&] {
    if (waitpid(child, &status, WNOHANG) != child) return false;
    if (!WIFSTOPPED(status)) return true;
    const int signal_number = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
    ptrace(PTRACE_CONT, child, nullptr, signal_number);
    return false;
  };
  if (!Eventually(has_ended)) {
    ADD_FAILURE() << "the target does not end";
    kill(child, SIGKILL);
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  char text[4096] = {};
  EXPECT_GT(read(output[0], text, sizeof(text) - 1), 0);
  close(output[0]);
  EXPECT_EQ(Reported(text, "dispatches"), 6);
  watcher.Stop();
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(child);
  EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_REFUSED);
  EXPECT_EQ(process.verdict.reason(), v1::ATTACH_REASON_ALREADY_TRACED);
  EXPECT_FALSE(process.verdict.target_modified());
  // It was released as soon as it was refused, not at the deadline.
  EXPECT_EQ(process.verdict.hold_end(), v1::HOLD_END_RELEASED);
}

// A hung service cannot keep a process held: the kernel side enforces the deadline.
TEST_F(FaultsTest, AHungServiceHoldsNoProcessBeyondTheDeadline) {
  WatcherProcess watcher({"--auto", "--hold-timeout-msec", "100"});
  ASSERT_TRUE(watcher.ready());
  {
    HungService hung(watcher.pid());
    for (int i = 0; i < 3; ++i) {
      Finished result = RunTarget({"hsa_dispatch", "-n", "5"});
      EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
    }
  }
  watcher.Stop();
  Recording recording = ReadRecording(watcher.recording());
  EXPECT_EQ(recording.processes.size(), 3u);
  for (const RecordedProcess& process : recording.processes) {
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_MISSED)
        << process.verdict.detail();
    EXPECT_EQ(process.verdict.hold_end(), v1::HOLD_END_DEADLINE);
  }
  EXPECT_EQ(recording.summary->hold_deadlines(), 3u);
}

// A held process dies at once when it is killed.
TEST_F(FaultsTest, AHeldProcessCanBeKilled) {
  WatcherProcess watcher({"--auto", "--hold-timeout-msec", "10000"});
  ASSERT_TRUE(watcher.ready());
  {
    HungService hung(watcher.pid());
    Child target(OnSimgpu({"hsa_dispatch", "-n", "5"}));
    EXPECT_TRUE(EventuallyHeld(target.pid()));
    target.Signal(SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(target.Wait().status));
  }
  watcher.Stop();
  Recording recording = ReadRecording(watcher.recording());
  ASSERT_EQ(recording.processes.size(), 1u);
  EXPECT_EQ(recording.processes[0].verdict.hold_end(), v1::HOLD_END_KILLED);
}

// A service that dies releases all held processes at once.
TEST_F(FaultsTest, HoldsEndWithTheService) {
  if (IsSkipped() || HasFatalFailure()) return;
  constexpr uint64_t kHoldNs = 10'000'000'000;
  WatcherProcess watcher({"--auto", "--hold-timeout-msec", "10000"});
  ASSERT_TRUE(watcher.ready());
  HungService hung(watcher.pid());
  const uint64_t begin_ns = BootNs();
  Child target(OnSimgpu({"hsa_exit_early"}));
  EXPECT_TRUE(EventuallyHeld(target.pid()));
  EXPECT_EQ(target.PollOutput(), "");
  hung.Kill();
  watcher.Kill();
  EXPECT_TRUE(target.Wait().exited_with(0));
  EXPECT_LT(BootNs() - begin_ns, kHoldNs) << "held to the deadline for nobody";
}

// Tests that apply to both hold modes.
class HoldTest : public FaultsTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(HoldModes, HoldTest, testing::Values("yielding", "signal"),
                         [](const auto& test) { return std::string(test.param); });

// The parent of a process sees it end, and no stop and no continuation before that.
TEST_P(HoldTest, TheParentSeesNoStop) {
  if (IsSkipped() || HasFatalFailure()) return;
  WatcherProcess watcher({"--auto", "--hold", GetParam()});
  ASSERT_TRUE(watcher.ready());
  ASSERT_EQ(watcher.Events("ready").at(0)["hold"], GetParam());
  for (int i = 0; i < 10; ++i) {
    Child target(OnSimgpu({"hsa_dispatch", "-n", "5", "--wait-msec", kTimeToSeize}));
    siginfo_t info = {};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(target.pid()), &info,
                     WEXITED | WSTOPPED | WCONTINUED | WNOWAIT),
              0);
    EXPECT_EQ(info.si_code, CLD_EXITED);
    EXPECT_TRUE(target.Wait().exited_with(0));
  }
  watcher.Stop();
  EXPECT_EQ(ReadRecording(watcher.recording()).summary->windows_attached(), 10u);
}

// Two services on one machine would both attach: one does, and the other reports why it
// does not, and takes none of the records.
TEST_F(FaultsTest, TwoServicesDoNotShareRecords) {
  constexpr int kTargets = 5;
  WatcherProcess first({"--auto"});
  WatcherProcess second({"--auto"});
  ASSERT_TRUE(first.ready() && second.ready());
  std::vector<pid_t> pids;
  for (int i = 0; i < kTargets; ++i) {
    Child target(OnSimgpu({"hsa_dispatch", "-n", "300"}));
    pids.push_back(target.pid());
    const Finished result = target.Wait();
    EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
    EXPECT_EQ(result.errors, "");
  }
  EXPECT_TRUE(first.Stop().exited_with(0));
  EXPECT_TRUE(second.Stop().exited_with(0));
  const Recording recordings[] = {ReadRecording(first.recording()),
                                  ReadRecording(second.recording())};
  for (pid_t pid : pids) {
    RecordedProcess has = recordings[0].Process(pid),
                    lacks = recordings[1].Process(pid);
    if (has.verdict.state() != v1::WINDOW_STATE_ATTACHED) std::swap(has, lacks);
    EXPECT_EQ(has.verdict.state(), v1::WINDOW_STATE_ATTACHED) << has.verdict.detail();
    EXPECT_EQ(has.dispatches.size(), 300u);
    EXPECT_EQ(has.dropped(), 0u);
    EXPECT_EQ(lacks.verdict.state(), v1::WINDOW_STATE_REFUSED)
        << lacks.verdict.detail();
    EXPECT_TRUE(lacks.verdict.reason() == v1::ATTACH_REASON_ALREADY_TRACED ||
                lacks.verdict.reason() == v1::ATTACH_REASON_ALREADY_ATTACHED)
        << lacks.verdict.detail();
    EXPECT_TRUE(lacks.dispatches.empty());
  }
}

// The same if the policy of the second service passes the process.
TEST_F(FaultsTest, AServiceThatPassesAProcessLeavesItToTheOther) {
  WatcherProcess first({"--auto"});
  WatcherProcess second({"--auto", "--deny", "*"});
  ASSERT_TRUE(first.ready() && second.ready());
  Child target(OnSimgpu({"hsa_dispatch", "-n", "300"}));
  pid_t pid = target.pid();
  EXPECT_TRUE(target.Wait().exited_with(0));
  first.Stop();
  second.Stop();
  RecordedProcess recorded = ReadRecording(first.recording()).Process(pid);
  EXPECT_EQ(recorded.verdict.state(), v1::WINDOW_STATE_ATTACHED);
  EXPECT_EQ(recorded.dispatches.size(), 300u);
  EXPECT_EQ(recorded.dropped(), 0u);
  RecordedProcess passed = ReadRecording(second.recording()).Process(pid);
  EXPECT_EQ(passed.verdict.state(), v1::WINDOW_STATE_PASSED);
  EXPECT_TRUE(passed.dispatches.empty());
}

// The other tests allow a hold 10 seconds, for busy machines. With the default, each
// process is attached in time, or released at the deadline and reported as missed.
TEST_P(HoldTest, TheDefaultTimeoutIsEnoughOrIsKept) {
  if (IsSkipped() || HasFatalFailure()) return;
  constexpr uint64_t kDefaultNs = 250'000'000;
  WatcherProcess watcher(
      {"--auto", "--hold", GetParam(), "--hold-timeout-msec", "250"});
  ASSERT_TRUE(watcher.ready());
  constexpr size_t kTargets = 10;
  for (size_t i = 0; i < kTargets; ++i) {
    const Finished result =
        RunTarget({"hsa_dispatch", "-n", "5", "--wait-msec", kTimeToSeize});
    EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
  }
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Recording recording = ReadRecording(watcher.recording());
  ASSERT_EQ(recording.processes.size(), kTargets);
  size_t attached = 0;
  for (const RecordedProcess& process : recording.processes) {
    const v1::WindowEvent& verdict = process.verdict;
    if (verdict.state() == v1::WINDOW_STATE_ATTACHED) {
      ++attached;
      EXPECT_NE(verdict.hold_end(), v1::HOLD_END_DEADLINE);
      EXPECT_LT(verdict.probe_ns(), kDefaultNs);
      EXPECT_EQ(process.dispatches.size(), 5u);
    } else {
      EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_MISSED) << verdict.detail();
      EXPECT_EQ(verdict.hold_end(), v1::HOLD_END_DEADLINE) << verdict.detail();
    }
  }
  EXPECT_GE(attached, kTargets / 2);
}

// In an interactive shell the foreground job stays in the foreground.
TEST_P(HoldTest, JobControlSeesNothing) {
  if (IsSkipped() || HasFatalFailure()) return;
  if (access("/bin/bash", X_OK) != 0) GTEST_SKIP() << "needs bash";
  WatcherProcess watcher({"--auto", "--hold", GetParam()});
  ASSERT_TRUE(watcher.ready());
  ASSERT_EQ(watcher.Events("ready").at(0)["hold"], GetParam());
  Terminal shell({"/bin/bash", "--norc", "--noprofile", "-i"}, {"PS1=ready> "});
  (void)shell.ReadUntil("ready> ");
  shell.Type(Quoted(SimgpuRunPath()) + " " + Quoted(TargetPath("hsa_dispatch")) +
             " -n 50 --wait-msec " + kTimeToSeize +
             "; echo \"status=$? jobs=[$(jobs)] end\"\n");
  // The terminal echoes the command first: there, a quote follows `] end`.
  const std::string& seen = shell.ReadUntil("] end\r\n");
  EXPECT_NE(seen.find("result=ok"), std::string::npos) << seen;
  EXPECT_NE(seen.find("status=0 jobs=[] end"), std::string::npos) << seen;
  EXPECT_EQ(seen.find("Stopped"), std::string::npos) << seen;
  watcher.Stop();
  EXPECT_EQ(ReadRecording(watcher.recording()).summary->windows_attached(), 1u);
}

}  // namespace
}  // namespace rocattach::testing_support
