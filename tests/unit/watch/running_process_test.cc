#include "userspace/watch/late/running_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/await.h"

namespace rocattach {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

std::string WhyNot(pid_t pid) {
  return std::string(CheckIsProcess(pid).message());
}

// A child that waits until it is killed.
class Sleeper {
 public:
  Sleeper() : pid_(fork()) {
    if (pid_ == 0) {
      for (;;) pause();
    }
  }
  ~Sleeper() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

TEST(CheckIsProcess, AcceptsAProcess) {
  Sleeper sleeper;
  EXPECT_TRUE(CheckIsProcess(sleeper.pid()).ok()) << WhyNot(sleeper.pid());
}

TEST(CheckIsProcess, RejectsNumbersThatAreNotProcesses) {
  EXPECT_THAT(WhyNot(0), HasSubstr("not a process ID"));
  EXPECT_THAT(WhyNot(-3), HasSubstr("not a process ID"));
  EXPECT_THAT(WhyNot(getpid()), HasSubstr("is the one that is to attach"));
  EXPECT_EQ(CheckIsProcess(4'194'304).code(), absl::StatusCode::kNotFound);
}

TEST(CheckIsProcess, RejectsAThread) {
  std::atomic<pid_t> tid = 0;
  std::atomic<bool> over = false;
  std::thread thread([&] {
    tid = gettid();
    while (!over) usleep(1000);
  });
  testing_support::Await([&] { return tid != 0; }, "the thread to start");
  EXPECT_THAT(WhyNot(tid), HasSubstr(absl::StrCat("a thread of process ", getpid())));
  over = true;
  thread.join();
}

TEST(CheckIsProcess, RejectsAZombie) {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  siginfo_t info = {};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  EXPECT_THAT(WhyNot(pid), HasSubstr("zombie"));
  waitpid(pid, nullptr, 0);
}

TEST(CheckUsesRuntime, RejectsAProcessWithoutIt) {
  Sleeper sleeper;
  EXPECT_EQ(CheckUsesRuntime(sleeper.pid()).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(WithDescendants, ParentsComeFirst) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      for (;;) pause();
    }
    (void)!write(ready[1], &grandchild, sizeof(grandchild));
    for (;;) pause();
  }
  pid_t grandchild = 0;
  ASSERT_EQ(read(ready[0], &grandchild, sizeof(grandchild)),
            static_cast<ssize_t>(sizeof(grandchild)));
  Sleeper other;
  const std::vector<pid_t> all = WithDescendants({child, child});
  EXPECT_EQ(all, (std::vector{child, grandchild}));
  EXPECT_THAT(WithDescendants({getpid()}),
              AllOf(Contains(grandchild), Contains(other.pid())));
  kill(grandchild, SIGKILL);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
}

TEST(ProcessesOfCgroup, RejectsAGroupThatDoesNotExist) {
  EXPECT_EQ(ProcessesOfCgroup("no/such/group").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(ProcessesOfCgroup, TheRootHasThisProcessInItOrBelow) {
  auto pids = ProcessesOfCgroup("/");
  if (!pids.ok()) GTEST_SKIP() << pids.status();
  EXPECT_THAT(*pids, Contains(getpid()));
  EXPECT_THAT(*pids, Not(Contains(0)));
}

}  // namespace
}  // namespace rocattach
