#include "userspace/base/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <thread>
#include <vector>

#include "userspace/base/clock.h"

namespace rocattach {
namespace {

TEST(ReadProcessInfo, DescribesThisProcess) {
  auto info = ReadProcessInfo(getpid());
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->id.pid, getpid());
  EXPECT_EQ(info->parent, getppid());
  EXPECT_EQ(info->uid, geteuid());
  EXPECT_EQ(info->comm, "base_test");
  EXPECT_NE(info->executable.find("base_test"), std::string::npos);
  ASSERT_FALSE(info->arguments.empty());
  EXPECT_GT(info->id.start_ticks, 0u);
}

TEST(ReadProcessInfo, SurvivesParenthesesInTheName) {
  pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_NAME, "a) b (c", 0, 0, 0);
    pause();
    _exit(0);
  }
  std::string comm;
  for (int i = 0; i < 1000 && comm != "a) b (c"; ++i) {
    auto info = ReadProcessInfo(child);
    ASSERT_TRUE(info.ok());
    comm = info->comm;
    EXPECT_EQ(info->id.start_ticks, *ReadStartTicks(child));
    usleep(1000);
  }
  EXPECT_EQ(comm, "a) b (c");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(ReadProcessInfo(child).ok());
}

// A process that ends while it is read has no name and root's user ID. That must not be
// returned as if it described a process.
TEST(ReadProcessInfo, AProcessIsReadWholeOrNotAtAll) {
  int whole = 0, gone = 0;
  for (int i = 0; i < 5000 && (whole < 100 || gone < 500); ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const uint64_t end_ns = BootNs() + static_cast<uint64_t>(i % 100) * 1000;
      while (BootNs() < end_ns) {
      }
      _exit(0);
    }
    ASSERT_GT(child, 0);
    std::thread reaper([child] { waitpid(child, nullptr, 0); });
    for (auto info = ReadProcessInfo(child); info.ok(); info = ReadProcessInfo(child)) {
      ++whole;
      EXPECT_EQ(info->comm, "base_test");
      EXPECT_EQ(info->parent == getpid() || info->parent == 0, true);
    }
    ++gone;
    reaper.join();
  }
  EXPECT_GE(whole, 100);
}

// The kernel's event and /proc identify the process by start times in different units.
TEST(ProcessId, TheKernelsStartTimeMatchesProc) {
  // If the clock's tick is the same before and after the fork, the child has started
  // in it. That is so for most children.
  bool within_a_tick = false;
  for (int i = 0; i < 1000 && !within_a_tick; ++i) {
    const uint64_t before_ns = BootNs();
    const pid_t child = fork();
    if (child == 0) {
      pause();
      _exit(0);
    }
    const uint64_t after_ns = BootNs();
    ASSERT_GT(child, 0);
    const auto ticks = ReadStartTicks(child);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    ASSERT_TRUE(ticks.ok()) << ticks.status();
    const ProcessId first = ProcessId::StartedAt(child, before_ns);
    const ProcessId last = ProcessId::StartedAt(child, after_ns);
    EXPECT_EQ(first.pid, child);
    EXPECT_LE(first.start_ticks, *ticks);
    EXPECT_GE(last.start_ticks, *ticks);
    within_a_tick = first == last;
  }
  EXPECT_TRUE(within_a_tick);
}

TEST(ListThreads, ContainsTheThreadsOfTheProcess) {
  std::promise<pid_t> started;
  std::promise<void> end;
  std::thread other([&] {
    started.set_value(gettid());
    end.get_future().wait();
  });
  const pid_t tid = started.get_future().get();
  const auto threads = ListThreads(getpid());
  end.set_value();
  other.join();
  ASSERT_TRUE(threads.ok()) << threads.status();
  EXPECT_NE(std::find(threads->begin(), threads->end(), getpid()), threads->end());
  EXPECT_NE(std::find(threads->begin(), threads->end(), tid), threads->end());
}

TEST(ListThreads, FailsWithoutAProcess) {
  EXPECT_EQ(ListThreads(99'999'999).status().code(), absl::StatusCode::kNotFound);
}

TEST(ListProcesses, HoldsThisOne) {
  std::vector<pid_t> all = ListProcesses();
  EXPECT_NE(std::find(all.begin(), all.end(), getpid()), all.end());
}

TEST(OpenPidFd, FailsForNoProcess) {
  EXPECT_FALSE(OpenPidFd(4'194'305).ok());
}

}  // namespace
}  // namespace rocattach
