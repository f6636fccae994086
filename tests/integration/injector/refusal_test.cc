// Targets that must be left alone: each for its own reason, and each unharmed.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "injector/attach.h"
#include "tests/integration/injector/target_process.h"
#include "tests/places.h"
#include "userspace/base/clock.h"
#include "userspace/base/process.h"

namespace rocattach {
namespace {

constexpr uid_t kNobody = 65534;

std::string Describe(const AttachOutcome& outcome) {
  return std::string(AttachStageName(outcome.stage)) + "/" +
         std::string(AttachReasonName(outcome.reason)) + ": " + outcome.detail;
}

void BecomeNobody() {
  if (setgroups(0, nullptr) != 0 || setgid(kNobody) != 0 || setuid(kNobody) != 0) {
    _exit(92);
  }
}

// True if the test needs root and does not have it, which is a failure in CI.
bool NeedsRoot() {
  if (geteuid() == 0) return false;
  const char* ci = getenv("CI");
  if (ci != nullptr && std::string(ci) == "true") {
    ADD_FAILURE() << "this test needs root";
  }
  return true;
}

// Attaches, expects `reason` and an unchanged target that finishes normally.
void ExpectRefusal(TargetProcess& target, const AttachRequest& request,
                   AttachReason reason) {
  AttachOutcome outcome = reason == AttachReason::kNotAtWindow
                              ? AttachOnOwnThread(request)
                              : target.Attach(request);
  EXPECT_EQ(outcome.reason, reason) << Describe(outcome);
  EXPECT_FALSE(outcome.ok());
  EXPECT_FALSE(outcome.target_modified);
  EXPECT_FALSE(outcome.detail.empty());
  EXPECT_TRUE(target.RunsAgain());
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output() << " status " << target.status();
  EXPECT_EQ(target.Report(), "");
}

TEST(RefusalTest, ReusedProcessNumber) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("plain"));
  AttachRequest request = target.Request();
  auto ticks = ReadStartTicks(target.pid());
  ASSERT_TRUE(ticks.ok());
  const uint64_t tick_ns = ClockTickNs();
  request.point.start_ns = (*ticks - 1) * tick_ns;
  ExpectRefusal(target, request, AttachReason::kPidReused);
}

TEST(RefusalTest, TheRightStartIsAccepted) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("plain"));
  AttachRequest request = target.Request();
  auto ticks = ReadStartTicks(target.pid());
  ASSERT_TRUE(ticks.ok());
  const uint64_t tick_ns = ClockTickNs();
  request.point.start_ns = *ticks * tick_ns + tick_ns / 2;
  AttachOutcome outcome = target.Attach(request);
  EXPECT_TRUE(outcome.ok()) << Describe(outcome);
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output();
}

TEST(RefusalTest, NotAtTheWindow) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("plain") && target.WaitAtWindow());
  AttachRequest request = target.Request();
  request.point.window_ip += 64;
  ExpectRefusal(target, request, AttachReason::kNotAtWindow);
}

TEST(RefusalTest, InASystemCallThatGoesOn) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("sleep"));
  ASSERT_TRUE(target.WaitForState('S'));
  ExpectRefusal(target, target.Request(), AttachReason::kNotAtWindow);
}

TEST(RefusalTest, ThreadOfAnotherProcess) {
  TargetProcess target, other;
  ASSERT_TRUE(target.Start("plain"));
  ASSERT_TRUE(other.Start("plain"));
  AttachRequest request = target.Request();
  request.point.pid = other.pid();
  ExpectRefusal(target, request, AttachReason::kTargetExited);
}

TEST(RefusalTest, AlreadyTraced) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("plain"));
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t pid = target.pid();
  const pid_t tracer = fork();
  if (tracer == 0) {
    const char ok = ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) == 0 ? 1 : 0;
    if (write(ready[1], &ok, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char ok = 0;
  ASSERT_EQ(read(ready[0], &ok, 1), 1);
  ASSERT_EQ(ok, 1);
  AttachOutcome outcome = AttachOnOwnThread(target.Request());
  EXPECT_EQ(outcome.stage, AttachStage::kSeize);
  EXPECT_EQ(outcome.reason, AttachReason::kAlreadyTraced) << Describe(outcome);
  EXPECT_TRUE(outcome.retryable);
  EXPECT_NE(outcome.detail.find(std::to_string(tracer)), std::string::npos);
  kill(tracer, SIGKILL);
  waitpid(tracer, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  // The refusal was retryable: now the attach works.
  outcome = target.Attach();
  EXPECT_TRUE(outcome.ok()) << Describe(outcome);
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output();
}

TEST(RefusalTest, NoSuchProcess) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info;
  // A zombie first, then nothing at all.
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  AttachRequest request;
  request.point.pid = request.point.tid = child;
  request.point.window_ip = 0x1000;
  request.collector.path = CollectorPath();
  AttachOutcome outcome = AttachOnOwnThread(request);
  EXPECT_EQ(outcome.reason, AttachReason::kTargetExited) << Describe(outcome);
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  outcome = AttachOnOwnThread(request);
  EXPECT_EQ(outcome.stage, AttachStage::kSeize);
  EXPECT_EQ(outcome.reason, AttachReason::kTargetExited) << Describe(outcome);
  EXPECT_EQ(outcome.error, ESRCH);
}

TEST(RefusalTest, SeccompStrictMode) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("strict") && target.WaitAtWindow());
  ExpectRefusal(target, target.Request(), AttachReason::kUnsupported);
}

// Gives the calling thread a seccomp filter that allows every call.
void AddSeccompFilter() {
  sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_fprog program = {1, &allow};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
    _exit(95);
  }
}

// Runs `attach` on a thread with a filter, as a service has in a unit with
// SystemCallFilter=. The kernel does not let it read the filters of others.
void WithSeccompFilter(const std::function<void()>& attach) {
  std::thread([&attach] {
    AddSeccompFilter();
    attach();
  }).join();
}

TEST(RefusalTest, SeccompFiltersThatCannotBeRead) {
  TargetProcess target;
  ASSERT_TRUE(target.Start({"", "plain", AddSeccompFilter}) && target.WaitAtWindow());
  WithSeccompFilter([&target] {
    ExpectRefusal(target, target.Request(), AttachReason::kSeccompFilter);
  });
}

TEST(RefusalTest, NoSeccompFiltersToRead) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("plain") && target.WaitAtWindow());
  WithSeccompFilter([&target] {
    const AttachOutcome outcome = target.Attach();
    EXPECT_TRUE(outcome.ok()) << Describe(outcome);
  });
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output() << " status " << target.status();
}

TEST(RefusalTest, SeccompFiltersThatCanBeReadAndAllowAll) {
  if (NeedsRoot()) GTEST_SKIP() << "needs CAP_SYS_ADMIN to read filters";
  TargetProcess target;
  ASSERT_TRUE(target.Start({"", "plain", AddSeccompFilter}) && target.WaitAtWindow());
  const AttachOutcome outcome = target.Attach();
  EXPECT_TRUE(outcome.ok()) << Describe(outcome);
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output() << " status " << target.status();
}

TEST(RefusalTest, StaticallyLinked) {
  TargetProcess target;
  ASSERT_TRUE(target.Start({StaticTargetPath(), "plain", nullptr}));
  ExpectRefusal(target, target.Request(), AttachReason::kNoDlopen);
}

TEST(RefusalTest, ThirtyTwoBit) {
  const pid_t child = fork();
  if (child == 0) {
    execl(Spin32Path().c_str(), "spin32", nullptr);
    _exit(93);
  }
  AttachRequest request;
  request.point.pid = request.point.tid = child;
  request.point.window_ip = 0x1000;
  request.collector.path = CollectorPath();
  AttachOutcome outcome;
  // Until its exec the child is a copy of this test, whose libraries may have no room
  // for the stub; in the middle of the exec it has no libc yet.
  for (int tries = 0; tries < 2000; ++tries) {
    outcome = AttachOnOwnThread(request);
    if (outcome.reason != AttachReason::kNotAtWindow &&
        outcome.reason != AttachReason::kNoDlopen &&
        outcome.reason != AttachReason::kNoCave) {
      break;
    }
    usleep(500);
  }
  int status;
  if (outcome.reason == AttachReason::kTargetExited &&
      waitpid(child, &status, 0) == child) {
    GTEST_SKIP() << "the kernel runs no 32-bit programs";
  }
  EXPECT_EQ(outcome.reason, AttachReason::kUnsupported) << Describe(outcome);
  EXPECT_FALSE(outcome.target_modified);
  EXPECT_EQ(waitpid(child, &status, WNOHANG), 0);
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST(RefusalTest, CollectorIsNotThere) {
  for (const char* path : {"/nonexistent/collector.so", "/tmp", "/dev/null"}) {
    TargetProcess target;
    ASSERT_TRUE(target.Start("plain"));
    AttachRequest request = target.Request();
    request.collector.path = path;
    ExpectRefusal(target, request, AttachReason::kCollectorMissing);
  }
}

TEST(RefusalTest, CollectorPathIsNoPath) {
  for (const std::string& path :
       {std::string(), std::string("collector.so"), "/" + std::string(300, 'x')}) {
    TargetProcess target;
    ASSERT_TRUE(target.Start("plain"));
    AttachRequest request = target.Request();
    request.collector.path = path;
    ExpectRefusal(target, request, AttachReason::kInternal);
  }
}

TEST(RefusalTest, CollectorIsUnreadableForTheTargetsUser) {
  if (NeedsRoot()) GTEST_SKIP() << "needs root to run a target as another user";
  const testing_support::ExecutableDirectory directory;
  const std::string file = directory / "collector.so";
  std::filesystem::copy_file(CollectorPath(), file);
  struct Case {
    mode_t directory_mode, file_mode;
  };
  for (Case modes : {Case{0755, 0600}, Case{0700, 0644}}) {
    chmod(directory.path().c_str(), modes.directory_mode);
    chmod(file.c_str(), modes.file_mode);
    // That user must also be able to reach the target itself, and the library in the
    // build directory that it is linked to.
    const testing_support::ExecutableDirectory place;
    const std::string program = place / "target";
    const std::filesystem::path library = WindowLibraryPath();
    std::filesystem::copy_file(TargetPath(), program);
    std::filesystem::copy_file(library, place / library.filename().string());
    chmod(program.c_str(), 0755);
    TargetProcess target;
    ASSERT_TRUE(target.Start({program, "plain", [&place] {
                                setenv("LD_LIBRARY_PATH", place.path().c_str(), 1);
                                BecomeNobody();
                              }}));
    AttachRequest request = target.Request();
    request.collector.path = file;
    ExpectRefusal(target, request, AttachReason::kCollectorUnreadable);
  }
}

TEST(RefusalTest, SetUserIdProgram) {
  if (NeedsRoot()) GTEST_SKIP() << "needs root to make a set-uid program";
  const testing_support::ExecutableDirectory directory;
  const std::string program = directory / "target";
  std::filesystem::copy_file(TargetPath(), program);
  ASSERT_EQ(chmod(program.c_str(), 04755), 0);
  TargetProcess target;
  ASSERT_TRUE(target.Start({program, "plain", BecomeNobody}));
  ExpectRefusal(target, target.Request(), AttachReason::kSecureExec);
}

// Between the seize and the stop the process may replace its program, and with it its
// memory.
TEST(RefusalTest, AProgramThatIsReplacedMeanwhile) {
  const testing_support::ExecutableDirectory directory;
  const std::string script = directory / "again.sh", end = directory / "end";
  std::ofstream(script) << "#!/bin/sh\n[ -e '" << end << "' ] && exit 7\nexec '"
                        << script << "'\n";
  chmod(script.c_str(), 0755);
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    execl(script.c_str(), script.c_str(), static_cast<char*>(nullptr));
    _exit(91);
  }
  AttachRequest request;
  request.point.pid = request.point.tid = pid;
  // No program has code there.
  request.point.window_ip = 0x10000;
  request.collector.path = CollectorPath();
  request.config.recording = 1;
  request.stop_timeout_msec = 5000;
  constexpr int kRounds = 300;
  for (int i = 0; i < kRounds; ++i) {
    const AttachOutcome outcome = AttachOnOwnThread(request);
    ASSERT_FALSE(outcome.ok());
    ASSERT_FALSE(outcome.target_modified) << Describe(outcome);
    // The process is alive, so nothing that was read may look like its exit.
    ASSERT_NE(outcome.reason, AttachReason::kTargetExited) << Describe(outcome);
  }
  std::ofstream(end).put('\n');
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

}  // namespace
}  // namespace rocattach
