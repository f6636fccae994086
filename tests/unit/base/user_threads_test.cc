#include "userspace/base/user_threads.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <iterator>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "tests/await.h"
#include "userspace/base/clock.h"
#include "userspace/base/task_thread.h"

namespace rocattach {
namespace {

constexpr absl::Duration kLongRun = absl::Hours(1);
constexpr uid_t kOne = 1000, kOther = 2000;

TEST(UserThreadsTest, AStuckTaskDelaysOnlyItsOwnUser) {
  UserThreads threads("test", 2);
  absl::Notification go_on, first, second;
  for (absl::Notification* begun : {&first, &second}) {
    ASSERT_TRUE(threads.Run(kOne, [&go_on, begun] {
      begun->Notify();
      go_on.WaitForNotification();
    }));
  }
  testing_support::Await(first, "the first task");
  testing_support::Await(second, "the second task");
  std::atomic<int> waited = 0;
  ASSERT_TRUE(threads.Run(kOne, [&] { ++waited; }));
  std::atomic<int> done = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(threads.Run(kOther, [&] { ++done; }));
  }
  testing_support::Await([&] { return done == 100; }, "the other user's tasks");
  EXPECT_EQ(waited, 0);
  EXPECT_GE(threads.Kept(absl::ZeroDuration()), 2u);
  EXPECT_EQ(threads.Kept(kLongRun), 0u);
  go_on.Notify();
  EXPECT_TRUE(threads.Stop(kLongRun));
}

TEST(UserThreadsTest, ATaskRunsWithTheRealTimePriority) {
  bool has_right = false;
  std::thread([&has_right] { has_right = BecomeRealtime(1, "test"); }).join();
  if (!has_right) GTEST_SKIP() << "needs CAP_SYS_NICE for real-time priorities";
  UserThreads threads("test", 1, /*priority=*/2);
  int policy = -1;
  sched_param param = {};
  ASSERT_TRUE(threads.Run(kOne, [&] {
    policy = sched_getscheduler(0);
    (void)sched_getparam(0, &param);
  }));
  EXPECT_TRUE(threads.Finish(kLongRun));
  EXPECT_EQ(policy & ~SCHED_RESET_ON_FORK, SCHED_FIFO);
  EXPECT_EQ(param.sched_priority, 2);
}

// Uses 10 ms of processor time.
void Compute() {
  const uint64_t begin_ns = ClockNs(CLOCK_THREAD_CPUTIME_ID);
  while (ClockNs(CLOCK_THREAD_CPUTIME_ID) - begin_ns < 10'000'000) {
  }
}

TEST(UserThreadsTest, RealTimeTasksLeaveTimeToOthers) {
  constexpr int kTasks = 150;  // half as much again as the burst
  const auto run = [](uid_t uid) {
    UserThreads threads("test", 4, /*priority=*/1);
    const uint64_t begin_ns = ClockNs(CLOCK_MONOTONIC);
    for (int i = 0; i < kTasks; ++i) EXPECT_TRUE(threads.Run(uid, Compute));
    EXPECT_TRUE(threads.Finish(kLongRun));
    return absl::Nanoseconds(ClockNs(CLOCK_MONOTONIC) - begin_ns);
  };
  const absl::Duration used = absl::Milliseconds(10) * kTasks;
  // The last tasks of the four threads need not have been waited for.
  const absl::Duration counted = used - 4 * absl::Milliseconds(10);
  EXPECT_GE(run(kOne),
            (counted - UserThreads::kRealtimeBurst) * UserThreads::kRealtimeShare);
}

TEST(UserThreadsTest, TasksOfAUserRunInTheirOrder) {
  UserThreads threads("test", 1);
  std::vector<int> order;  // written by one thread at a time
  std::atomic<int> done = 0;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(threads.Run(kOne, [&, i] {
      order.push_back(i);
      ++done;
    }));
  }
  testing_support::Await([&] { return done == 1000; }, "all tasks");
  EXPECT_TRUE(threads.Stop(kLongRun));
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(UserThreadsTest, AStopDropsWaitingTasksAndGivesUpOnRunningOnes) {
  UserThreads threads("test", 1);
  absl::Notification begun, go_on;
  ASSERT_TRUE(threads.Run(kOne, [&] {
    begun.Notify();
    go_on.WaitForNotification();
  }));
  auto owned = std::make_shared<int>(1);
  std::weak_ptr<int> dropped = owned;
  ASSERT_TRUE(threads.Run(kOne, [owned = std::move(owned)] { FAIL() << *owned; }));
  testing_support::Await(begun, "the first task");
  EXPECT_FALSE(threads.Stop(absl::Milliseconds(1)));
  EXPECT_TRUE(dropped.expired());
  EXPECT_FALSE(threads.Run(kOther, [] {})) << "after a stop";
  go_on.Notify();
  EXPECT_TRUE(threads.Stop(kLongRun));
}

TEST(UserThreadsTest, TheWaitingTasksOfAUserAreBounded) {
  absl::Notification begun, go_on;
  UserThreads threads("test", 1);
  ASSERT_TRUE(threads.Run(kOne, [&] {
    begun.Notify();
    go_on.WaitForNotification();
  }));
  testing_support::Await(begun, "the first task");
  for (size_t i = 0; i < UserThreads::kMostWaiting; ++i) {
    ASSERT_TRUE(threads.Run(kOne, [] {}));
  }
  EXPECT_FALSE(threads.Run(kOne, [] {}));
  absl::Notification other;
  EXPECT_TRUE(threads.Run(kOther, [&] { other.Notify(); }));
  testing_support::Await(other, "the other user's task");
  go_on.Notify();
  EXPECT_TRUE(threads.Stop(kLongRun));
}

TEST(UserThreadsTest, ProcessesNotReadInTimeAreReturned) {
  UserThreads threads("test", 2);
  const pid_t kept = getpid(), others[] = {1 << 30, (1 << 30) + 1, (1 << 30) + 2};
  const auto go_on = std::make_shared<absl::Notification>();
  const auto read = std::make_shared<std::atomic<int>>(0);
  const auto count = [go_on, read, kept](pid_t pid) {
    if (pid == kept) go_on->WaitForNotification();
    ++*read;
  };
  const std::vector<pid_t> some(std::begin(others), std::end(others));
  EXPECT_TRUE(ReadProcesses(&threads, kLongRun, some, count).empty());
  EXPECT_EQ(*read, 3);
  EXPECT_EQ(ReadProcesses(&threads, absl::Milliseconds(1), {kept}, count),
            std::set<pid_t>{kept});
  go_on->Notify();
  EXPECT_TRUE(ReadProcesses(&threads, kLongRun, {kept}, count).empty());
  EXPECT_TRUE(threads.Stop(kLongRun));
  EXPECT_EQ(ReadProcesses(&threads, kLongRun, {kept}, count), std::set<pid_t>{kept})
      << "after a stop, and without a wait";
}

TEST(UserThreadsTest, TheUserOfAProcess) {
  EXPECT_EQ(UserOf(getpid()), geteuid());
  EXPECT_EQ(UserOf(1 << 30), 0u) << "there is none";
}

}  // namespace
}  // namespace rocattach
