// The life of sessions, with shell scripts in place of the recording program.
#include "userspace/library/attach_sessions.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/await.h"
#include "tests/places.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing_support::ExecutableDirectory;

constexpr rocattach_status_t kSuccess = ROCATTACH_STATUS_SUCCESS;
constexpr rocattach_status_t kError = ROCATTACH_STATUS_ERROR;
constexpr rocattach_status_t kInvalid = ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT;
constexpr rocattach_status_t kNotSupported = ROCATTACH_STATUS_ERROR_NOT_SUPPORTED;
constexpr rocattach_status_t kNotFound =
    ROCATTACH_STATUS_ERROR_PTRACE_PROCESS_NOT_FOUND;

// $pid is the requested process. `wait_for_end` returns at SIGTERM.
constexpr char kHead[] = R"(#!/bin/sh
echo "$$ $*" >>"$0.log"
for word; do case $word in --pid=*) pid=${word#--pid=} ;; esac; done
say() { printf '%s\n' "$1"; }
attached() { say '{"event":"attached","pid":'"$1"'}'; }
refused() { say '{"event":"not_attached","pid":'"$1"',"reason":"'"$2"'","detail":"no"}'; }
ready() { say '{"event":"ready"}'; }
end() { say '{"event":"end","complete":true,"files":["x.rwa"]}'; }
asked=
trap 'asked=1' TERM
wait_for_end() { while [ -z "$asked" ]; do sleep 0.02; done; }
)";

class AttachSessionsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"ROCPROF_OUTPUT_PATH", "ROCPROF_OUTPUT_FILE_NAME", "ROCPROF_KERNEL_TRACE",
          "ROCPROF_ATTACH_TOOL_LIBRARY", "ROCATTACH_LOG_LEVEL"}) {
      unsetenv(name);
    }
    target_ = Sleeper();
    other_ = Sleeper();
  }
  void TearDown() override {
    for (pid_t pid : sleepers_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    EXPECT_FALSE(RecorderRuns()) << Log();
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG | __WALL), -1) << "a child was left";
  }

  pid_t Sleeper() {
    const pid_t pid = fork();
    if (pid == 0) {
      pause();
      _exit(0);
    }
    sleepers_.push_back(pid);
    return pid;
  }
  // From now on the recording program runs this script.
  void Record(const std::string& script) {
    const std::string path = directory_.path() + "/recorder";
    std::ofstream(path) << kHead << script << "\n";
    chmod(path.c_str(), 0755);
    setenv("ROCATTACH_PROGRAM", path.c_str(), 1);
  }
  void RecordNormally() { Record("attached $pid; ready; wait_for_end; end"); }
  std::string Log() const {
    std::ifstream file(directory_.path() + "/recorder.log");
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  pid_t Recorder() const {
    const std::string log = Log();
    return log.empty() ? -1
                       : atoi(log.substr(log.rfind('\n', log.size() - 2) + 1).c_str());
  }
  // A zombie does not count: init reaps it a little later.
  bool RecorderRuns() const {
    const pid_t pid = Recorder();
    if (pid <= 0) return false;
    // Not by a stream, which throws if the process ends while it is read.
    const std::string stat =
        ReadFile("/proc/" + std::to_string(pid) + "/stat", 1 << 12).value_or("");
    return !stat.empty() && stat.find(") Z") == std::string::npos;
  }

  ExecutableDirectory directory_;
  AttachSessions sessions_{
      AttachLimits{.attach_msec = 3'000, .detach_msec = 3'000, .end_msec = 1'000}};
  std::vector<pid_t> sleepers_;
  pid_t target_ = -1, other_ = -1;
};

TEST_F(AttachSessionsTest, AttachesAndDetachesAnyNumberOfTimes) {
  RecordNormally();
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(sessions_.Attach(target_, false), kSuccess);
    EXPECT_TRUE(RecorderRuns());
    EXPECT_EQ(sessions_.Detach(target_), kSuccess);
    EXPECT_FALSE(RecorderRuns());
  }
  EXPECT_EQ(kill(target_, 0), 0);
}

TEST_F(AttachSessionsTest, OneSessionForEachProcess) {
  RecordNormally();
  ASSERT_EQ(sessions_.Attach(target_, false), kSuccess);
  EXPECT_EQ(sessions_.Attach(target_, false), kInvalid);
  EXPECT_EQ(sessions_.Attach(target_, true), kInvalid);
  ASSERT_EQ(sessions_.Attach(other_, false), kSuccess);
  EXPECT_EQ(sessions_.Detach(target_), kSuccess);
  EXPECT_EQ(sessions_.Detach(target_), kInvalid);
  EXPECT_EQ(sessions_.Detach(other_), kSuccess);
}

TEST_F(AttachSessionsTest, DetachOfAllAlwaysSucceeds) {
  EXPECT_EQ(sessions_.Detach(0), kSuccess);
  EXPECT_EQ(sessions_.DetachTree(0), kSuccess);
  RecordNormally();
  ASSERT_EQ(sessions_.Attach(target_, false), kSuccess);
  ASSERT_EQ(sessions_.Attach(other_, true), kSuccess);
  EXPECT_EQ(sessions_.Detach(0), kSuccess);
  EXPECT_EQ(sessions_.Detach(target_), kInvalid);
  EXPECT_EQ(sessions_.DetachTree(other_), kInvalid);
}

TEST_F(AttachSessionsTest, NumbersThatAreNoProcess) {
  RecordNormally();
  for (int pid : {0, -1, INT_MIN, static_cast<int>(getpid())}) {
    EXPECT_EQ(sessions_.Attach(pid, false), kInvalid) << pid;
    EXPECT_EQ(sessions_.Attach(pid, true), kInvalid) << pid;
    if (pid != 0) {
      EXPECT_EQ(sessions_.Detach(pid), kInvalid) << pid;
    }
  }
  EXPECT_EQ(sessions_.Attach(INT_MAX, false), kNotFound);
  EXPECT_EQ(Log(), "") << "nothing may be started for these";
}

TEST_F(AttachSessionsTest, RefusalsHaveTheirStatusAndLeaveNothing) {
  for (const auto& [reason, status] : std::map<std::string, rocattach_status_t>{
           {"no-runtime", kError},
           {"no-such-process", kNotFound},
           {"not-permitted", ROCATTACH_STATUS_ERROR_PTRACE_OPERATION_NOT_PERMITTED},
           {"stop-timeout", ROCATTACH_STATUS_ERROR_PTRACE_ERROR},
           {"unsupported", kNotSupported}}) {
    Record("refused $pid " + reason + "; ready; wait_for_end; end");
    EXPECT_EQ(sessions_.Attach(target_, false), status) << reason;
    EXPECT_FALSE(RecorderRuns());
    EXPECT_EQ(sessions_.Detach(target_), kInvalid);
  }
  Record("say '{\"event\":\"failed\",\"reason\":\"not-permitted\"}'; exit 3");
  EXPECT_EQ(sessions_.Attach(target_, false),
            ROCATTACH_STATUS_ERROR_PTRACE_OPERATION_NOT_PERMITTED);
}

TEST_F(AttachSessionsTest, AProgramThatFailsOrIsMissing) {
  Record("echo 'what is this' >&2; exit 2");
  testing::internal::CaptureStderr();
  EXPECT_EQ(sessions_.Attach(target_, false), kError);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("what is this"));
  setenv("ROCATTACH_PROGRAM", "/nonexistent", 1);
  EXPECT_EQ(sessions_.Attach(target_, false), kError);
  // The program is found, but cannot be executed.
  std::ofstream(directory_.path() + "/text") << "\x7f"
                                                "ELF";
  chmod((directory_.path() + "/text").c_str(), 0755);
  setenv("ROCATTACH_PROGRAM", (directory_.path() + "/text").c_str(), 1);
  EXPECT_EQ(sessions_.Attach(target_, false), kError);
}

TEST_F(AttachSessionsTest, AProgramThatHangs) {
  const auto begin = std::chrono::steady_clock::now();
  Record("trap '' TERM; while :; do sleep 0.05; done");
  EXPECT_EQ(sessions_.Attach(target_, false), kError);
  EXPECT_FALSE(RecorderRuns());
  Record("attached $pid; ready; trap '' TERM; while :; do sleep 0.05; done");
  ASSERT_EQ(sessions_.Attach(target_, false), kSuccess);
  EXPECT_EQ(sessions_.Detach(target_), kError);
  EXPECT_FALSE(RecorderRuns());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST_F(AttachSessionsTest, AProgramThatDies) {
  Record("attached $pid; ready; kill -9 $$");
  ASSERT_EQ(sessions_.Attach(target_, false), kSuccess);
  EXPECT_EQ(sessions_.Detach(target_), kError);
  EXPECT_EQ(sessions_.Detach(target_), kInvalid);
}

TEST_F(AttachSessionsTest, GarbledOutputIsPassedOver) {
  Record(
      "head -c 200000 /dev/zero | tr '\\0' x; echo; say '{'; say '[1]'; say ''; "
      "printf '\\377\\000\\n'; attached $pid; say '{\"event\":7}'; ready; "
      "head -c 70000 /dev/zero | tr '\\0' '\\n'; wait_for_end; say x; end");
  ASSERT_EQ(sessions_.Attach(target_, false), kSuccess);
  EXPECT_EQ(sessions_.Detach(target_), kSuccess);
}

TEST_F(AttachSessionsTest, AnAnswerAboutAnotherProcessIsIgnored) {
  Record("attached 1; attached -5; ready; wait_for_end; end");
  EXPECT_EQ(sessions_.Attach(target_, false), kError);
}

TEST_F(AttachSessionsTest, AnIncompleteFileIsAnError) {
  Record(
      "attached $pid; ready; wait_for_end; "
      "say '{\"event\":\"end\",\"files\":[],\"output_error\":\"disk full\"}'");
  ASSERT_EQ(sessions_.Attach(target_, false), kSuccess);
  testing::internal::CaptureStderr();
  EXPECT_EQ(sessions_.Detach(target_), kError);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("disk full"));
}

// The converter says which part of the output is missing.
TEST_F(AttachSessionsTest, AnOutputThatWasNotWrittenIsAnErrorThatNamesIt) {
  Record(
      "attached $pid; ready; wait_for_end; echo 'out.csv exists already' >&2;"
      "say '{\"event\":\"end\",\"files\":[\"x.rwa\"],"
      "\"output_error\":\"the outputs of x.rwa are missing\"}'");
  ASSERT_EQ(sessions_.Attach(target_, false), kSuccess);
  testing::internal::CaptureStderr();
  EXPECT_EQ(sessions_.Detach(target_), kError);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("the outputs of x.rwa are missing"));
  EXPECT_THAT(said, HasSubstr("out.csv exists already"));
}

TEST_F(AttachSessionsTest, WithoutAnAttachNothingIsRecorded) {
  Record("refused $pid no-runtime; end");
  setenv("ROCATTACH_LOG_LEVEL", "info", 1);
  testing::internal::CaptureStderr();
  EXPECT_EQ(sessions_.Attach(target_, false), kError);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("nothing was recorded; the verdicts are in x.rwa"));
  EXPECT_THAT(said, Not(HasSubstr("recorded in")));
}

TEST_F(AttachSessionsTest, ARecordingThatEndsWithItsTarget) {
  Record("attached $pid; ready; end");
  ASSERT_EQ(sessions_.Attach(target_, false), kSuccess);
  testing_support::Await([&] { return !RecorderRuns(); }, "the end of the recorder");
  EXPECT_EQ(sessions_.Detach(target_), kSuccess);
  // Even without a detach, it does not prevent the next session.
  ASSERT_EQ(sessions_.Attach(target_, false), kSuccess);
  testing_support::Await([&] { return !RecorderRuns(); }, "the end of the recorder");
  RecordNormally();
  EXPECT_EQ(sessions_.Attach(target_, false), kSuccess);
  EXPECT_EQ(sessions_.Detach(target_), kSuccess);
}

TEST_F(AttachSessionsTest, Trees) {
  const std::string other = std::to_string(other_);
  Record("attached $pid; attached " + other + "; ready; wait_for_end; end");
  ASSERT_EQ(sessions_.Attach(target_, true), kSuccess);
  EXPECT_THAT(Log(), HasSubstr("--attach-children"));
  EXPECT_EQ(sessions_.Attach(other_, false), kInvalid) << "attached with its tree";
  EXPECT_EQ(sessions_.Detach(other_), kNotSupported);
  EXPECT_EQ(sessions_.DetachTree(other_), kInvalid);
  EXPECT_EQ(sessions_.DetachTree(target_), kSuccess);
  EXPECT_EQ(sessions_.DetachTree(target_), kInvalid);
  // A process without the runtime is left out, which is no error.
  Record("attached $pid; refused " + other + " no-runtime; ready; wait_for_end; end");
  ASSERT_EQ(sessions_.Attach(target_, true), kSuccess);
  EXPECT_EQ(sessions_.Detach(target_), kSuccess);
  // Any other failure is returned, and the rest is recorded.
  Record("attached $pid; refused " + other + " stop-timeout; ready; wait_for_end; end");
  EXPECT_EQ(sessions_.Attach(target_, true), ROCATTACH_STATUS_ERROR_PTRACE_ERROR);
  EXPECT_EQ(sessions_.DetachTree(target_), kSuccess);
  // If the root is refused, the attach fails.
  Record("refused $pid no-runtime; attached " + other + "; ready; wait_for_end; end");
  EXPECT_EQ(sessions_.Attach(target_, true), kError);
  EXPECT_FALSE(RecorderRuns());
  EXPECT_EQ(sessions_.DetachTree(target_), kInvalid);
  // A session that is not one of a tree.
  RecordNormally();
  ASSERT_EQ(sessions_.Attach(target_, false), kSuccess);
  EXPECT_EQ(sessions_.DetachTree(target_), kInvalid);
  EXPECT_EQ(sessions_.Detach(target_), kSuccess);
}

TEST_F(AttachSessionsTest, TheHostsSignalsAndWaitsAreNotAffected) {
  static volatile sig_atomic_t children;
  children = 0;
  struct sigaction count = {}, before;
  count.sa_handler = [](int) { children = children + 1; };
  sigaction(SIGCHLD, &count, &before);
  RecordNormally();
  ASSERT_EQ(sessions_.Attach(target_, false), kSuccess);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), 0) << "the sleepers run";
  EXPECT_NE(getpgid(Recorder()), getpgid(0));
  EXPECT_EQ(sessions_.Detach(target_), kSuccess);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), 0);
  EXPECT_EQ(children, 0);
  signal(SIGCHLD, SIG_IGN);
  ASSERT_EQ(sessions_.Attach(target_, false), kSuccess);
  EXPECT_EQ(sessions_.Detach(target_), kSuccess);
  sigaction(SIGCHLD, &before, nullptr);
}

TEST_F(AttachSessionsTest, ASubreaperKeepsNoZombie) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
  Record("attached $pid; ready; wait_for_end; end");
  ASSERT_EQ(sessions_.Attach(target_, false), kSuccess);
  const pid_t recorder = Recorder();
  EXPECT_EQ(sessions_.Detach(target_), kSuccess);
  EXPECT_EQ(kill(recorder, 0), -1) << "a zombie";
  prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
  while (waitpid(recorder, nullptr, WNOHANG) > 0) {
  }
}

// A daemon closes all its descriptors, and files that it opens get their numbers.
TEST_F(AttachSessionsTest, TheHostClosesItsDescriptors) {
  RecordNormally();
  ASSERT_EQ(sessions_.Attach(target_, false), kSuccess);
  closefrom(3);
  std::vector<int> own;
  for (int i = 0; i < 16; ++i) own.push_back(open("/dev/zero", O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(RecorderRuns());
  EXPECT_EQ(sessions_.Detach(target_), kSuccess);
  for (int fd : own) {
    char byte = 1;
    EXPECT_EQ(read(fd, &byte, 1), 1) << "the library closed " << fd;
    EXPECT_EQ(byte, 0);
    close(fd);
  }
}

TEST_F(AttachSessionsTest, NoDescriptorIsLeftOrInherited) {
  const int mine = open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  const int pair = dup(mine);
  close(pair);
  RecordNormally();
  ASSERT_EQ(sessions_.Attach(target_, false), kSuccess);
  const std::string link =
      "/proc/" + std::to_string(Recorder()) + "/fd/" + std::to_string(mine);
  char target[64] = "";
  const ssize_t length = readlink(link.c_str(), target, sizeof(target) - 1);
  EXPECT_FALSE(length > 0 && std::string(target) == "/dev/null") << link;
  EXPECT_EQ(sessions_.Detach(target_), kSuccess);
  EXPECT_EQ(dup(mine), pair) << "a descriptor was left open";
  close(pair);
  close(mine);
}

TEST_F(AttachSessionsTest, StandardDescriptorsMayBeClosed) {
  RecordNormally();
  const int input = dup(0), output = dup(1);
  close(0);
  close(1);
  const auto attached = sessions_.Attach(target_, false);
  const bool free = fcntl(0, F_GETFD) == -1 && fcntl(1, F_GETFD) == -1;
  const auto detached = sessions_.Detach(target_);
  dup2(input, 0);
  dup2(output, 1);
  close(input);
  close(output);
  EXPECT_EQ(attached, kSuccess);
  EXPECT_TRUE(free);
  EXPECT_EQ(detached, kSuccess);
}

// The recorder waits for the end of this input. Nothing inherited or closed changes it.
TEST_F(AttachSessionsTest, TheRecordersInputIsAPidfdOfTheHost) {
  RecordNormally();
  ASSERT_EQ(sessions_.Attach(target_, false), kSuccess);
  std::ifstream file("/proc/" + std::to_string(Recorder()) + "/fdinfo/0");
  const std::string info(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(info, HasSubstr("\nPid:\t" + std::to_string(getpid()) + "\n"));
  EXPECT_EQ(sessions_.Detach(target_), kSuccess);
}

TEST_F(AttachSessionsTest, ThreadsAttachAtTheSameTime) {
  RecordNormally();
  std::vector<pid_t> targets;
  for (int i = 0; i < 6; ++i) targets.push_back(Sleeper());
  std::vector<std::thread> threads;
  for (pid_t pid : targets) {
    threads.emplace_back([this, pid] {
      EXPECT_EQ(sessions_.Attach(pid, false), kSuccess);
      EXPECT_EQ(sessions_.Detach(pid), kSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(AttachSessionsTest, OnlyOneOfTwoThreadsAttaches) {
  Record("sleep 0.3; attached $pid; ready; wait_for_end; end");
  rocattach_status_t status[2];
  std::thread first([&] { status[0] = sessions_.Attach(target_, false); });
  std::thread second([&] { status[1] = sessions_.Attach(target_, false); });
  first.join();
  second.join();
  EXPECT_EQ(std::min(status[0], status[1]), kSuccess);
  EXPECT_EQ(std::max(status[0], status[1]), kInvalid);
  EXPECT_EQ(sessions_.Detach(target_), kSuccess);
}

TEST_F(AttachSessionsTest, AChildOfAForkHasNoSessions) {
  RecordNormally();
  ASSERT_EQ(sessions_.Attach(target_, false), kSuccess);
  sessions_.BeforeFork();
  const pid_t child = fork();
  if (child == 0) {
    sessions_.AfterForkInChild();
    _exit(sessions_.Detach(target_) == kInvalid && sessions_.Detach(0) == kSuccess ? 0
                                                                                   : 1);
  }
  sessions_.AfterForkInParent();
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(RecorderRuns());
  EXPECT_EQ(sessions_.Detach(target_), kSuccess);
}

TEST_F(AttachSessionsTest, TheProgramGetsOptionsAndACleanEnvironment) {
  setenv("ROCPROF_OUTPUT_PATH", "/some where", 1);
  setenv("ROCPROF_ATTACH_PID", "1", 1);
  setenv("LD_PRELOAD_TEST", "x", 1);
  Record("env >>\"$0.log\"; attached $pid; ready; wait_for_end; end");
  ASSERT_EQ(sessions_.Attach(target_, false), kSuccess);
  const std::string log = Log();
  EXPECT_THAT(
      log, HasSubstr("attach --json --detach-on-eof --pid=" + std::to_string(target_) +
                     " --attach-children=false --attach-duration-msec=0"
                     " --output-directory /some where"));
  EXPECT_THAT(log, testing::Not(HasSubstr("ROCPROF_ATTACH_PID")));
  EXPECT_THAT(log, testing::Not(HasSubstr("LD_PRELOAD_TEST")));
  EXPECT_EQ(sessions_.Detach(target_), kSuccess);
  unsetenv("LD_PRELOAD_TEST");
  unsetenv("ROCPROF_ATTACH_PID");
}

// The recorder finds out whether the process can load the libraries.
TEST_F(AttachSessionsTest, ForeignToolLibraries) {
  const std::string words = directory_.path() + "/words";
  Record("echo \"$*\" >'" + words + "'; env >'" + words +
         ".env'; attached $pid; ready; wait_for_end; end");
  const auto with = [&](const std::string& libraries) {
    setenv("ROCPROF_ATTACH_TOOL_LIBRARY", libraries.c_str(), 1);
    EXPECT_EQ(sessions_.Attach(target_, false), kSuccess);
    EXPECT_EQ(sessions_.Detach(target_), kSuccess);
    std::ifstream file(words);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  setenv("ROCPROF_OUTPUT_PATH", "/for/the/tool", 1);
  const std::string tools = with("/one.so::two.so:librocattach-collector.so:");
  EXPECT_THAT(tools, HasSubstr("--attach-tool-library=/one.so:two.so\n"));
  EXPECT_THAT(tools, Not(HasSubstr("/for/the/tool")));
  std::ifstream file(words + ".env");
  const std::string environment(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(environment, HasSubstr("ROCPROF_OUTPUT_PATH=/for/the/tool\n"));
  EXPECT_THAT(environment, Not(HasSubstr("ROCPROF_ATTACH_TOOL_LIBRARY")));
  const std::string ours = with("librocattach-collector.so");
  EXPECT_THAT(ours, Not(HasSubstr("--attach-tool-library")));
  EXPECT_THAT(ours, HasSubstr("--output-directory /for/the/tool"));
}

TEST_F(AttachSessionsTest, RefusalsOfTools) {
  setenv("ROCPROF_ATTACH_TOOL_LIBRARY", "/one.so", 1);
  for (const auto& [reason, status] : std::map<std::string, rocattach_status_t>{
           {"no-listener", kError},
           {"tool-invalid", kInvalid},
           {"tool-refused", kError},
           {"call-timeout", kError},
           {"died-during-attach", kNotFound},
           {"already-traced", ROCATTACH_STATUS_ERROR_PTRACE_OPERATION_NOT_PERMITTED}}) {
    Record("refused $pid " + reason + "; ready; wait_for_end; end");
    EXPECT_EQ(sessions_.Attach(target_, false), status) << reason;
  }
}

}  // namespace
}  // namespace rocattach
