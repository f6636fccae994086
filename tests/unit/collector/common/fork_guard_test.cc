#include "userspace/collector/common/fork_guard.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

namespace rocattach::collector {
namespace {

int ExitStatusOf(pid_t pid) {
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ForkGuardTest, TellsParentFromChild) {
  ForkGuard guard;
  EXPECT_FALSE(guard.armed());
  EXPECT_FALSE(guard.Ours());
  ASSERT_EQ(guard.Arm(), 0);
  EXPECT_TRUE(guard.Ours());
  pid_t child = fork();
  if (child == 0) _exit(guard.armed() && !guard.Ours() ? 42 : 1);
  EXPECT_EQ(ExitStatusOf(child), 42);
  EXPECT_TRUE(guard.Ours());
}

TEST(ForkGuardTest, DetectsARawCloneToo) {
  ForkGuard guard;
  ASSERT_EQ(guard.Arm(), 0);
  long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) {
    syscall(SYS_exit_group, guard.Ours() ? 1 : 42);
  }
  EXPECT_EQ(ExitStatusOf(static_cast<pid_t>(child)), 42);
}

TEST(ForkGuardTest, AChildCanArmItsOwn) {
  ForkGuard guard;
  ASSERT_EQ(guard.Arm(), 0);
  pid_t child = fork();
  if (child == 0) {
    ForkGuard own;
    _exit(own.Arm() == 0 && own.Ours() && !guard.Ours() ? 42 : 1);
  }
  EXPECT_EQ(ExitStatusOf(child), 42);
}

}  // namespace
}  // namespace rocattach::collector
