// The injector dies, or fails, at each of its steps: the target must not notice.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "injector/process/maps.h"
#include "injector/stub/stub.h"
#include "tests/integration/injector/runner_process.h"
#include "tests/integration/injector/target_process.h"
#include "tests/integration/random_instants.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {
namespace {

using testing::HasSubstr;

// Starts the injector in a process of its own.
RunnerProcess Runner(const TargetProcess& target, const std::string& fault,
                     bool sent = false) {
  std::vector<std::string> command = {FaultRunnerPath(), std::to_string(target.pid()),
                                      std::to_string(target.tid()),
                                      std::to_string(target.window()), CollectorPath()};
  if (sent) command.push_back("sent");
  return RunnerProcess(std::move(command), fault);
}

bool StartAtWindow(TargetProcess& target, const std::string& mode) {
  return target.Start(mode) && target.WaitAtWindow();
}

void ExpectUnharmed(TargetProcess& target, const TargetSnapshot& before,
                    const std::string& fault, bool collector_expected) {
  EXPECT_TRUE(target.RunsAgain()) << fault << ": state " << target.State();
  if (collector_expected) {
    EXPECT_THAT(target.WaitForReport(), HasSubstr("started")) << fault;
  }
  // The thread has left the stub, if it was in it.
  EXPECT_TRUE(target.WaitAtWindow()) << fault;
  // The signal that was to stop the thread has no effect, but stays pending until the
  // thread has run.
  TargetSnapshot after = target.Snapshot();
  for (int i = 0; i < 2000 && before.signals != after.signals; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    after = target.Snapshot();
  }
  EXPECT_EQ(before.descriptors, after.descriptors) << fault;
  EXPECT_EQ(before.mappings, after.mappings) << fault;
  EXPECT_EQ(before.signals, after.signals) << fault;
  // An injector that died could not restore anything.
  if (!collector_expected && fault.rfind("fail-", 0) == 0) {
    EXPECT_EQ(before.code, after.code) << fault;
  }
  target.Finish();
  EXPECT_TRUE(target.Intact())
      << fault << ": " << target.output() << " status " << target.status();
  EXPECT_EQ(target.Report().empty(), !collector_expected) << fault;
}

std::vector<std::string> StepsBeforeRedirect(StubKind kind = StubKind::kByPath) {
  std::vector<std::string> steps = {"seize",           "after-seize", "interrupt",
                                    "after-interrupt", "resolve",     "stop",
                                    "after-stop"};
  for (size_t piece = 0; piece * 64 < StubBytes(kind); ++piece) {
    steps.push_back("write-" + std::to_string(piece));
  }
  steps.push_back("after-write");
  steps.push_back("redirect");
  return steps;
}

TEST(FaultTest, WithoutAFaultTheRunnerAttaches) {
  TargetProcess target;
  ASSERT_TRUE(StartAtWindow(target, "plain"));
  TargetSnapshot before = target.Snapshot();
  RunnerResult result = Runner(target, "").Wait();
  EXPECT_THAT(result.output, HasSubstr("stage=done reason=none modified=1"));
  ExpectUnharmed(target, before, "none", true);
}

TEST(FaultTest, DeathBeforeTheRedirectChangesNothing) {
  for (const std::string& step : StepsBeforeRedirect()) {
    TargetProcess target;
    ASSERT_TRUE(StartAtWindow(target, "plain"));
    TargetSnapshot before = target.Snapshot();
    RunnerResult result = Runner(target, "die-" + step).Wait();
    EXPECT_TRUE(WIFSIGNALED(result.status))
        << step << " was not reached: " << result.output;
    ExpectUnharmed(target, before, "die-" + step, false);
  }
}

TEST(FaultTest, DeathAfterTheRedirectLeavesACompleteAttach) {
  for (const std::string step : {"after-redirect", "before-detach", "detach"}) {
    TargetProcess target;
    ASSERT_TRUE(StartAtWindow(target, "plain"));
    TargetSnapshot before = target.Snapshot();
    RunnerResult result = Runner(target, "die-" + step).Wait();
    EXPECT_TRUE(WIFSIGNALED(result.status)) << step;
    ExpectUnharmed(target, before, "die-" + step, true);
  }
}

TEST(FaultTest, AFailingStepIsReportedAndUndone) {
  for (const std::string& step : StepsBeforeRedirect()) {
    TargetProcess target;
    ASSERT_TRUE(StartAtWindow(target, "plain"));
    TargetSnapshot before = target.Snapshot();
    RunnerResult result = Runner(target, "fail-" + step).Wait();
    EXPECT_TRUE(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 1) << step;
    EXPECT_THAT(result.output, HasSubstr("reason=internal")) << step;
    const bool written = step == "after-write" || step == "redirect" ||
                         (step.rfind("write-", 0) == 0 && step != "write-0");
    EXPECT_THAT(result.output, HasSubstr(written ? "modified=1" : "modified=0"))
        << step;
    ExpectUnharmed(target, before, "fail-" + step, false);
  }
}

// Attaches at a call: the thread is seized and runs on, the call is armed and stops it.
RunnerProcess CallRunner(const TargetProcess& target, const std::string& fault) {
  uint64_t stack = 0;
  const auto maps = Maps::Read(target.pid());
  EXPECT_TRUE(maps.ok()) << maps.status();
  for (const Mapping& mapping : maps->mappings()) {
    if (mapping.path == "[stack]") stack = mapping.end.value() - 4096;
  }
  return RunnerProcess(
      {FaultRunnerPath(), std::to_string(target.pid()), std::to_string(target.tid()),
       std::to_string(target.window()), CollectorPath(), std::to_string(stack)},
      fault);
}

TEST(FaultTest, DeathAtACallBeforeTheRedirectChangesNothing) {
  std::vector<std::string> steps = {"look", "seized", "armed", "stopped"};
  for (size_t piece = 0; piece * 64 < StubBytes(); ++piece) {
    steps.push_back("write-" + std::to_string(piece));
  }
  steps.push_back("after-write");
  steps.push_back("redirect");
  for (const std::string& step : steps) {
    TargetProcess target;
    ASSERT_TRUE(StartAtWindow(target, "plain"));
    TargetSnapshot before = target.Snapshot();
    RunnerResult result = CallRunner(target, "die-" + step).Wait();
    EXPECT_TRUE(WIFSIGNALED(result.status))
        << step << " was not reached: " << result.output;
    ExpectUnharmed(target, before, "die-" + step, false);
  }
}

TEST(FaultTest, DeathAtACallAfterTheRedirectLeavesACompleteAttach) {
  for (const std::string step : {"after-redirect", "before-detach", "detach"}) {
    TargetProcess target;
    ASSERT_TRUE(StartAtWindow(target, "plain"));
    TargetSnapshot before = target.Snapshot();
    RunnerResult result = CallRunner(target, "die-" + step).Wait();
    EXPECT_TRUE(WIFSIGNALED(result.status)) << step;
    ExpectUnharmed(target, before, "die-" + step, true);
  }
}

TEST(FaultTest, AFailingStepAtACallIsReportedAndUndone) {
  for (const std::string step : {"write-3", "after-write", "redirect"}) {
    TargetProcess target;
    ASSERT_TRUE(StartAtWindow(target, "plain"));
    TargetSnapshot before = target.Snapshot();
    RunnerResult result = CallRunner(target, "fail-" + step).Wait();
    EXPECT_TRUE(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 1) << step;
    EXPECT_THAT(result.output, HasSubstr("reason=internal")) << step;
    ExpectUnharmed(target, before, "fail-" + step, false);
  }
}

// If the target cannot see the file, the thread is in the stub while the file is sent.
// It must continue without the file.
TEST(FaultTest, DeathBeforeTheFileIsSentChangesNothing) {
  std::vector<std::string> steps = StepsBeforeRedirect(StubKind::kByDescriptor);
  for (const char* step :
       {"after-redirect", "run-to-call", "bind-entry", "socket-bound", "send"}) {
    steps.push_back(step);
  }
  for (const std::string& step : steps) {
    TargetProcess target;
    ASSERT_TRUE(StartAtWindow(target, "plain"));
    TargetSnapshot before = target.Snapshot();
    RunnerResult result = Runner(target, "die-" + step, /*sent=*/true).Wait();
    EXPECT_TRUE(WIFSIGNALED(result.status))
        << step << " was not reached: " << result.output;
    ExpectUnharmed(target, before, "die-" + step, false);
  }
}

TEST(FaultTest, DeathAfterTheFileWasSentLeavesACompleteAttach) {
  for (const std::string step : {"after-send", "before-detach", "detach"}) {
    TargetProcess target;
    ASSERT_TRUE(StartAtWindow(target, "plain"));
    TargetSnapshot before = target.Snapshot();
    RunnerResult result = Runner(target, "die-" + step, /*sent=*/true).Wait();
    EXPECT_TRUE(WIFSIGNALED(result.status)) << step;
    ExpectUnharmed(target, before, "die-" + step, true);
  }
}

TEST(FaultTest, AFileThatCannotBeSentIsReported) {
  TargetProcess target;
  ASSERT_TRUE(StartAtWindow(target, "plain"));
  TargetSnapshot before = target.Snapshot();
  RunnerResult result = Runner(target, "fail-send", /*sent=*/true).Wait();
  EXPECT_THAT(result.output,
              HasSubstr("stage=redirect reason=not-permitted modified=1"));
  // The stub has been run and stays for now, as after a load that fails.
  ExpectUnharmed(target, before, "send", false);
}

// Returns the abstract address of the socket that the process has just made.
std::string SocketOf(pid_t pid) {
  std::set<std::string> inodes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(
           "/proc/" + std::to_string(pid) + "/fd", error)) {
    const std::string link = std::filesystem::read_symlink(entry.path(), error);
    if (link.rfind("socket:[", 0) == 0) inodes.insert(link.substr(8, link.size() - 9));
  }
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    std::istringstream words(line);
    std::string word, inode, name;
    for (int i = 0; i < 6; ++i) words >> word;
    if (words >> inode >> name && inodes.contains(inode)) return name.substr(1);
  }
  return "";
}

// Sends the file as the service does, but without the key.
void SendFile(const std::string& name, int file) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path + 1, name.data(), name.size());
  char contents[16] = "anything else";
  iovec vector = {contents, sizeof(contents)};
  const int files[2] = {file, file};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(files))] = {};
  msghdr message = {};
  message.msg_name = &address;
  message.msg_namelen =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(files));
  memcpy(CMSG_DATA(header), files, sizeof(files));
  const UniqueFd socket_fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(sendmsg(socket_fd.get(), &message, 0),
            static_cast<ssize_t>(sizeof(contents)));
}

// Another process sends a library of its own to the stub's socket before the service
// sends the file: that library must not be loaded.
TEST(FaultTest, AStrangersFileIsNotLoaded) {
  TargetProcess target;
  ASSERT_TRUE(StartAtWindow(target, "plain"));
  TargetSnapshot before = target.Snapshot();
  const UniqueFd collector(open(CollectorPath().c_str(), O_RDONLY | O_CLOEXEC));
  // Leaves enough time at each step of the injector.
  RunnerProcess runner = Runner(target, "delay-ms=100", /*sent=*/true);
  std::string name;
  for (int i = 0; i < 30'000 && name.empty(); ++i) {
    name = SocketOf(target.pid());
    usleep(1000);
  }
  ASSERT_EQ(name.size(), 16u);
  SendFile(name, collector.get());
  RunnerResult result = runner.Wait();
  EXPECT_THAT(result.output, HasSubstr("stage=done reason=none modified=1"));
  ExpectUnharmed(target, before, "stranger", false);
}

// Another thread takes the loader's lock after the injector has checked it: the stub
// tries the lock as well, and gives up in bounded time.
TEST(FaultTest, TheStubDoesNotWaitForTheLoader) {
  for (const std::string mode : {"constructor", "iterate", "holder"}) {
    TargetProcess target;
    ASSERT_TRUE(target.Start({ContextsPath(), mode, nullptr}));
    ASSERT_TRUE(target.WaitAtWindow());
    RunnerResult result = Runner(target, "fail-loader-wait").Wait();
    EXPECT_THAT(result.output, HasSubstr("stage=done reason=none modified=1")) << mode;
    EXPECT_TRUE(target.WaitAtWindow()) << mode;
    target.Finish();
    EXPECT_TRUE(target.Intact())
        << mode << ": " << target.output() << " status " << target.status();
    // The holder does not wait for this thread, so the lock becomes free.
    EXPECT_EQ(target.Report().empty(), mode != "holder") << mode;
  }
}

// If glibc's locks are not found, the attach goes on without checking them.
TEST(FaultTest, WithoutTheLoadersLocksTheCollectorIsLoaded) {
  TargetProcess target;
  ASSERT_TRUE(StartAtWindow(target, "plain"));
  TargetSnapshot before = target.Snapshot();
  RunnerResult result = Runner(target, "fail-loader-lock").Wait();
  EXPECT_THAT(result.output, HasSubstr("stage=done reason=none modified=1"));
  ExpectUnharmed(target, before, "fail-loader-lock", true);
}

// If an older or stricter kernel refuses a shortcut, a second way is used.
TEST(FaultTest, ARefusedShortcutIsReplaced) {
  for (const std::string shortcut : {"maps-query", "mem-write"}) {
    TargetProcess target;
    ASSERT_TRUE(StartAtWindow(target, "plain"));
    TargetSnapshot before = target.Snapshot();
    RunnerResult result = Runner(target, "fail-" + shortcut).Wait();
    EXPECT_THAT(result.output, HasSubstr("stage=done reason=none modified=1"));
    ExpectUnharmed(target, before, "fail-" + shortcut, true);
  }
}

TEST(FaultTest, AFailingDetachIsCompletedByTheEndOfTheTracer) {
  TargetProcess target;
  ASSERT_TRUE(StartAtWindow(target, "plain"));
  TargetSnapshot before = target.Snapshot();
  RunnerResult result = Runner(target, "fail-detach").Wait();
  EXPECT_THAT(result.output, HasSubstr("must_exit=1"));
  ExpectUnharmed(target, before, "fail-detach", true);
}

// Sends SIGKILL from outside at random instants; the environment sets the rounds.
void KillAtRandomInstants(bool sent) {
  const char* wanted = getenv("ROCATTACH_KILL_ROUNDS");
  const int rounds = wanted != nullptr ? atoi(wanted) : 60;
  std::mt19937 random(42);
  RandomInstants instants;
  for (int i = 0; i < rounds || (instants.OneSided() && i < 10 * rounds); ++i) {
    TargetProcess target;
    ASSERT_TRUE(StartAtWindow(target, i % 3 == 0 ? "busy" : "plain"));
    RunnerProcess runner = Runner(target, "", sent);
    runner.WaitForBegin();
    std::this_thread::sleep_for(instants.Next(&random));
    runner.Kill();
    RunnerResult result = runner.Wait();
    EXPECT_TRUE(target.RunsAgain()) << target.State();
    target.Finish();
    EXPECT_TRUE(target.Intact()) << target.output() << " status " << target.status();
    instants.Add(/*late=*/!target.Report().empty());
  }
  EXPECT_FALSE(instants.OneSided()) << "all kills came before the attach, or behind it";
}

TEST(FaultTest, TheInjectorMayBeKilledAtAnyInstant) {
  KillAtRandomInstants(/*sent=*/false);
}

TEST(FaultTest, TheInjectorMayBeKilledAtAnyInstantOfASending) {
  KillAtRandomInstants(/*sent=*/true);
}

}  // namespace
}  // namespace rocattach
