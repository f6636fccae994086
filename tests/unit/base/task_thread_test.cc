#include "userspace/base/task_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/synchronization/barrier.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "tests/await.h"

namespace rocattach {
namespace {

struct Scheduling {
  int policy = -1;
  int priority = -1;
};

// From the kernel: the C library's values are inherited even if the kernel's are not.
Scheduling OfThisThread() {
  Scheduling scheduling;
  sched_param param = {};
  (void)sched_getparam(0, &param);
  scheduling.policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
  scheduling.priority = param.sched_priority;
  return scheduling;
}

bool HasTheRight() {
  bool has = false;
  std::thread([&has] { has = BecomeRealtime(1, "test"); }).join();
  return has;
}
#define SKIP_WITHOUT_THE_RIGHT() \
  if (!HasTheRight()) GTEST_SKIP() << "needs CAP_SYS_NICE for real-time priorities"

TEST(TaskThreadTest, HasItsPriorityAndItsName) {
  SKIP_WITHOUT_THE_RIGHT();
  Scheduling scheduling;
  char name[16] = {};
  TaskThread thread(3, "rwa-test", [&] {
    scheduling = OfThisThread();
    (void)pthread_getname_np(pthread_self(), name, sizeof(name));
  });
  ASSERT_TRUE(thread.joinable());
  thread.join();
  EXPECT_FALSE(thread.joinable());
  EXPECT_EQ(scheduling.policy, SCHED_FIFO);
  EXPECT_EQ(scheduling.priority, 3);
  EXPECT_EQ(absl::string_view(name), "rwa-test");
}

TEST(TaskThreadTest, ThreadsThatItStartsAreOrdinary) {
  SKIP_WITHOUT_THE_RIGHT();
  Scheduling of_child;
  TaskThread thread(1, "rwa-test", [&] {
    std::thread([&of_child] { of_child = OfThisThread(); }).join();
  });
  thread.join();
  EXPECT_EQ(of_child.policy, SCHED_OTHER);
}

// All threads run on one processor:
// 1. A thread of priority 1 is started; it does not run yet, as its creator has 2.
// 2. Another thread, of priority 2, is started.
// 3. The creator waits. If the second thread began with ordinary scheduling, the first
//    one would run before it.
TEST(TaskThreadTest, RunsAtOnce) {
  SKIP_WITHOUT_THE_RIGHT();
  std::atomic<bool> began = false;
  bool began_first = false;
  bool on_one_processor = false;
  TaskThread creator(2, "rwa-creator", [&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    on_one_processor = pthread_setaffinity_np(pthread_self(), sizeof(one), &one) == 0;
    TaskThread busy(1, "rwa-busy", [&] { began_first = began; });
    TaskThread urgent(2, "rwa-urgent", [&] { began = true; });
    busy.join();
    urgent.join();
  });
  creator.join();
  ASSERT_TRUE(on_one_processor);
  EXPECT_TRUE(began_first);
}

// Addresses of the stacks of `count` threads that run at the same time.
std::set<void*> Stacks(int count) {
  std::set<void*> stacks;
  absl::Mutex mutex;
  absl::Barrier* all = new absl::Barrier(count);
  std::vector<TaskThread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back(0, "rwa-test", [&] {
      pthread_attr_t attributes;
      void* stack = nullptr;
      size_t bytes = 0;
      ASSERT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
      EXPECT_EQ(pthread_attr_getstack(&attributes, &stack, &bytes), 0);
      pthread_attr_destroy(&attributes);
      EXPECT_LE(bytes, TaskThread::kStackBytes);
      {
        absl::MutexLock lock(&mutex);
        stacks.insert(stack);
      }
      if (all->Block()) delete all;
    });
  }
  for (TaskThread& thread : threads) thread.join();
  return stacks;
}

TEST(TaskThreadTest, StacksAreKeptForTheNextThreads) {
  constexpr int kThreads = 48;
  const std::set<void*> stacks = Stacks(kThreads);
  EXPECT_EQ(stacks.size(), size_t{kThreads});
  for (void* stack : stacks) {
    EXPECT_EQ(msync(stack, 1, MS_ASYNC), 0) << "the stack of a thread was unmapped";
  }
}

TEST(TaskThreadTest, ADetachedThreadRunsOn) {
  const auto ran = std::make_shared<absl::Notification>();
  TaskThread thread(1, "rwa-test", [ran] { ran->Notify(); });
  ASSERT_TRUE(thread.joinable());
  thread.detach();
  EXPECT_FALSE(thread.joinable());
  testing_support::Await(*ran, "the detached thread to run");
}

}  // namespace
}  // namespace rocattach
