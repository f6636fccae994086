#include "userspace/base/user_threads.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <iterator>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"

namespace rocattach {
namespace {

constexpr absl::Duration kLong = absl::Hours(1);
constexpr uid_t kOne = 1000, kOther = 2000;

TEST(UserThreadsTest, ATaskThatIsKeptCostsItsOwnUserOnly) {
  UserThreads threads("test", 2);
  absl::Notification go_on, first, second;
  for (absl::Notification* begun : {&first, &second}) {
    ASSERT_TRUE(threads.Run(kOne, [&go_on, begun] {
      begun->Notify();
      go_on.WaitForNotification();
    }));
  }
  first.WaitForNotification();
  second.WaitForNotification();
  std::atomic<int> waited = 0;
  ASSERT_TRUE(threads.Run(kOne, [&] { ++waited; }));
  absl::BlockingCounter done(100);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(threads.Run(kOther, [&] { done.DecrementCount(); }));
  }
  done.Wait();
  EXPECT_EQ(waited, 0);
  EXPECT_GE(threads.Kept(absl::ZeroDuration()), 2u);
  EXPECT_EQ(threads.Kept(kLong), 0u);
  go_on.Notify();
  EXPECT_TRUE(threads.Stop(kLong));
}

TEST(UserThreadsTest, TasksOfAUserRunInTheirOrder) {
  UserThreads threads("test", 1);
  std::vector<int> order;  // by one thread at a time
  absl::BlockingCounter done(1000);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(threads.Run(kOne, [&, i] {
      order.push_back(i);
      done.DecrementCount();
    }));
  }
  done.Wait();
  EXPECT_TRUE(threads.Stop(kLong));
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(UserThreadsTest, AStopDropsWhatHasNotBegunAndGivesUpOnTheRest) {
  UserThreads threads("test", 1);
  absl::Notification begun, go_on;
  ASSERT_TRUE(threads.Run(kOne, [&] {
    begun.Notify();
    go_on.WaitForNotification();
  }));
  auto owned = std::make_shared<int>(1);
  std::weak_ptr<int> dropped = owned;
  ASSERT_TRUE(threads.Run(kOne, [owned = std::move(owned)] { FAIL() << *owned; }));
  begun.WaitForNotification();
  EXPECT_FALSE(threads.Stop(absl::Milliseconds(1)));
  EXPECT_TRUE(dropped.expired());
  EXPECT_FALSE(threads.Run(kOther, [] {})) << "after a stop";
  go_on.Notify();
  EXPECT_TRUE(threads.Stop(kLong));
}

TEST(UserThreadsTest, AUserHasSoManyWaitingTasks) {
  absl::Notification begun, go_on;
  UserThreads threads("test", 1);
  ASSERT_TRUE(threads.Run(kOne, [&] {
    begun.Notify();
    go_on.WaitForNotification();
  }));
  begun.WaitForNotification();
  for (size_t i = 0; i < UserThreads::kMostWaiting; ++i) {
    ASSERT_TRUE(threads.Run(kOne, [] {}));
  }
  EXPECT_FALSE(threads.Run(kOne, [] {}));
  absl::Notification other;
  EXPECT_TRUE(threads.Run(kOther, [&] { other.Notify(); }));
  other.WaitForNotification();
  go_on.Notify();
  EXPECT_TRUE(threads.Stop(kLong));
}

TEST(UserThreadsTest, ProcessesAreReadEachByItself) {
  UserThreads threads("test", 2);
  const pid_t kept = getpid(), others[] = {1 << 30, (1 << 30) + 1, (1 << 30) + 2};
  const auto go_on = std::make_shared<absl::Notification>();
  const auto read = std::make_shared<std::atomic<int>>(0);
  const auto count = [go_on, read, kept](pid_t pid) {
    if (pid == kept) go_on->WaitForNotification();
    ++*read;
  };
  const std::vector<pid_t> some(std::begin(others), std::end(others));
  EXPECT_TRUE(ReadProcesses(&threads, kLong, some, count).empty());
  EXPECT_EQ(*read, 3);
  EXPECT_EQ(ReadProcesses(&threads, absl::Milliseconds(1), {kept}, count),
            std::set<pid_t>{kept});
  go_on->Notify();
  EXPECT_TRUE(ReadProcesses(&threads, kLong, {kept}, count).empty());
  EXPECT_TRUE(threads.Stop(kLong));
  EXPECT_EQ(ReadProcesses(&threads, kLong, {kept}, count), std::set<pid_t>{kept})
      << "after a stop, and without a wait";
}

TEST(UserThreadsTest, TheUserOfAProcess) {
  EXPECT_EQ(UserOf(getpid()), geteuid());
  EXPECT_EQ(UserOf(1 << 30), 0u) << "there is none";
}

}  // namespace
}  // namespace rocattach
