#include "userspace/collector/common/own_stack.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>

namespace rocattach::collector {
namespace {

TEST(OwnStackTest, TheFunctionRunsElsewhere) {
  int here = 0;
  ptrdiff_t distance = 0;
  int calls = 0;
  EXPECT_TRUE(OnOwnStack([&] {
    volatile char much[64 * 1024];
    much[0] = 1;
    much[sizeof(much) - 1] = 1;
    distance = reinterpret_cast<char*>(&here) - const_cast<char*>(&much[0]);
    ++calls;
  }));
  EXPECT_EQ(calls, 1);
  // Far away: on the caller's stack, the distance would be just above 64 KiB.
  EXPECT_TRUE(distance < 0 || distance > 256 * 1024) << distance;
}

TEST(OwnStackTest, SignalsWaitButNotThoseOfFaults) {
  sigset_t before, inside, after;
  sigemptyset(&before);
  sigaddset(&before, SIGUSR2);
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
  errno = 7;
  EXPECT_TRUE(OnOwnStack([&] { pthread_sigmask(SIG_BLOCK, nullptr, &inside); }));
  EXPECT_EQ(errno, 7);
  pthread_sigmask(SIG_BLOCK, nullptr, &after);
  for (int signal : {SIGUSR1, SIGTERM, SIGALRM, SIGPROF, SIGUSR2}) {
    EXPECT_TRUE(sigismember(&inside, signal)) << signal;
    EXPECT_EQ(sigismember(&after, signal), signal == SIGUSR2 ? 1 : 0) << signal;
  }
  for (int signal : {SIGSEGV, SIGBUS, SIGABRT}) {
    EXPECT_FALSE(sigismember(&inside, signal)) << signal;
  }
  sigemptyset(&before);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(OwnStackTest, WithoutMemoryNothingIsCalled) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none = {0, 0};
    if (setrlimit(RLIMIT_AS, &none) != 0) _exit(2);
    bool called = false;
    const bool ran = OnOwnStack([&] { called = true; });
    _exit(ran || called ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace rocattach::collector
