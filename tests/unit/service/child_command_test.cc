#include "userspace/service/child_command.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/temporary_directory.h"

namespace rocattach {
namespace {

class ChildCommandTest : public testing::Test {
 protected:
  void TearDown() override {
    if (command_ != nullptr) {
      kill(command_->pid(), SIGKILL);
      waitpid(command_->pid(), nullptr, 0);
    }
  }

  void Start(const std::vector<std::string>& words,
             const DescriptorLimit& descriptors = {}) {
    auto command = ChildCommand::Start(words, descriptors);
    ASSERT_TRUE(command.ok()) << command.status();
    command_ = *std::move(command);
  }
  // The exit status as in the shell's $?: 128 plus the number of a fatal signal.
  int End() {
    pollfd ended = {command_->pidfd(), POLLIN, 0};
    EXPECT_EQ(poll(&ended, 1, /*timeout=*/60'000), 1) << "the command does not end";
    const std::optional<int> status = command_->TryWait();
    EXPECT_TRUE(status.has_value());
    if (!status.has_value()) return -1;
    command_.reset();
    return WIFSIGNALED(*status) ? 128 + WTERMSIG(*status) : WEXITSTATUS(*status);
  }
  int StatusOf(const std::string& script, const DescriptorLimit& descriptors = {}) {
    Start({"sh", "-c", script}, descriptors);
    return HasFatalFailure() ? -1 : End();
  }
  static bool HasChildren() {
    siginfo_t info = {};
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
  }
  // Forks a child that has ended and has not been waited for.
  static pid_t Ended() {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    siginfo_t info;
    EXPECT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
    return child;
  }
  std::string File(const std::string& name, mode_t mode) const {
    const std::string path = directory_ / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << "#!/bin/sh\n";
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }

  const testing_support::TemporaryDirectory directory_;
  std::unique_ptr<ChildCommand> command_;
};

TEST_F(ChildCommandTest, TheStatusIsTheCommandsOwn) {
  EXPECT_EQ(StatusOf("exit 3"), 3);
  EXPECT_EQ(StatusOf("kill -KILL $$"), 128 + SIGKILL);
  EXPECT_FALSE(HasChildren());
}

TEST_F(ChildCommandTest, ACommandThatRunsHasNoStatus) {
  Start({"sleep", "1000"});
  EXPECT_EQ(command_->TryWait(), std::nullopt);
  pollfd ended = {command_->pidfd(), POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 0), 0);
  ASSERT_EQ(kill(command_->pid(), SIGTERM), 0);
  EXPECT_EQ(End(), 128 + SIGTERM);
}

TEST_F(ChildCommandTest, EachWordIsAnArgument) {
  Start({"sh", "-c", "test $# = 2 && test \"$1\" = 'a b' && test -z \"$2\"", "sh",
         "a b", ""});
  EXPECT_EQ(End(), 0);
}

// Keeps the command's output out of a recording that goes to standard output.
TEST_F(ChildCommandTest, ItsOutputCanGoToStandardError) {
  const std::string both =
      "test \"$(readlink /proc/$$/fd/1)\" = "
      "\"$(readlink /proc/$$/fd/2)\"";
  const int out = open(File("out", 0644).c_str(), O_WRONLY | O_CLOEXEC);
  const int before = dup(STDOUT_FILENO);
  ASSERT_EQ(dup2(out, STDOUT_FILENO), STDOUT_FILENO);
  const int inherited = StatusOf(both);
  auto command =
      ChildCommand::Start({"sh", "-c", both}, {}, ChildCommand::Output::kStandardError);
  ASSERT_EQ(dup2(before, STDOUT_FILENO), STDOUT_FILENO);
  close(before);
  close(out);
  ASSERT_TRUE(command.ok()) << command.status();
  command_ = *std::move(command);
  EXPECT_EQ(End(), 0);
  EXPECT_EQ(inherited, 1);
}

TEST_F(ChildCommandTest, ACommandThatCannotBeExecutedIsAnErrorAndLeavesNoChild) {
  const auto missing = ChildCommand::Start({directory_ / "none"}, {});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find(directory_ / "none"), std::string::npos);
  const auto denied = ChildCommand::Start({File("text", 0644)}, {});
  EXPECT_EQ(denied.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_FALSE(HasChildren());
}

// Ignored signals are inherited: all programs below the command would ignore them.
TEST_F(ChildCommandTest, TheCommandDiesOfSignalsThatTheServiceIgnores) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    const auto before = signal(number, SIG_IGN);
    EXPECT_EQ(StatusOf(absl::StrCat("kill -", number, " $$")), 128 + number);
    signal(number, before);
  }
}

TEST_F(ChildCommandTest, TheCommandHasTheDescriptorsThatItWouldHaveHad) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_max <= 200) GTEST_SKIP() << "needs a higher limit of descriptors";
  const rlimit low = {200, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const DescriptorLimit descriptors = DescriptorLimit::Raise();
  EXPECT_GT(descriptors.most(), 200u);
  EXPECT_EQ(StatusOf("test $(ulimit -Sn) = 200", descriptors), 0);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(ChildCommandTest, OrphansAreReaped) {
  Ended();
  Ended();
  ReapOrphans(nullptr);
  EXPECT_FALSE(HasChildren());
  // A child that still runs is not waited for.
  Start({"sleep", "1000"});
  Ended();
  ReapOrphans(command_.get());
  siginfo_t info = {};
  EXPECT_EQ(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT), 0);
  EXPECT_EQ(info.si_pid, 0);
}

TEST_F(ChildCommandTest, TheCommandsStatusIsLeftToItsOwner) {
  Start({"sh", "-c", "exit 5"});
  pollfd ended = {command_->pidfd(), POLLIN, 0};
  ASSERT_EQ(poll(&ended, 1, /*timeout=*/60'000), 1) << "the command does not end";
  ReapOrphans(command_.get());
  EXPECT_EQ(End(), 5);
}

class FindProgramTest : public ChildCommandTest {
 protected:
  void SetUp() override {
    ChildCommandTest::SetUp();
    const char* path = getenv("PATH");
    if (path != nullptr) path_ = path;
  }
  void TearDown() override {
    setenv("PATH", path_.c_str(), 1);
    ChildCommandTest::TearDown();
  }
  static void SetPath(const std::string& path) { setenv("PATH", path.c_str(), 1); }

 private:
  std::string path_;
};

TEST_F(FindProgramTest, FindsTheFirstFileThatCanBeExecuted) {
  File("first/tool", 0644);
  std::filesystem::create_directories(directory_ / "second/tool");
  const std::string third = File("third/tool", 0755);
  File("fourth/tool", 0755);
  SetPath(absl::StrCat(directory_.path(), "/none:", directory_.path(),
                       "/first:", directory_.path(), "/second:", directory_.path(),
                       "/third:", directory_.path(), "/fourth"));
  const auto found = FindProgram("tool");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, third);
}

TEST_F(FindProgramTest, ErrorsDistinguishNotExecutableFromNotFound) {
  File("first/tool", 0644);
  SetPath(absl::StrCat(directory_.path(), "/first:", directory_.path(), "/none"));
  EXPECT_EQ(FindProgram("tool").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(FindProgram("other").status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(FindProgram("other").status().message().find("other"), std::string::npos);
}

TEST_F(FindProgramTest, ANameWithASlashIsAPath) {
  const std::string tool = File("first/tool", 0755);
  SetPath(directory_ / "first");
  EXPECT_EQ(*FindProgram(tool), tool);
  EXPECT_FALSE(FindProgram("./tool").ok());
  EXPECT_EQ(FindProgram(directory_.path()).status().code(),
            absl::StatusCode::kPermissionDenied);
}

// The same rule as in the shell and in execvp(3).
TEST_F(FindProgramTest, AnEmptyEntryIsTheWorkingFolder) {
  File("tool", 0755);
  SetPath(directory_ / "none:");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(directory_.path());
  const auto found = FindProgram("tool");
  std::filesystem::current_path(before);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, "tool");
}

TEST_F(FindProgramTest, AnEmptyNameIsNotFound) {
  SetPath(directory_.path());
  EXPECT_EQ(FindProgram("").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ChildCommand::Start({""}, {}).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace rocattach
