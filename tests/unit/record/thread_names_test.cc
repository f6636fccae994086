#include "userspace/record/drain/thread_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "tests/await.h"

namespace rocattach {
namespace {

using testing::IsEmpty;

class ThreadNamesTest : public testing::Test {
 protected:
  static v1::Process Self() {
    v1::Process process;
    process.set_pid(static_cast<uint32_t>(getpid()));
    process.set_start_ticks(*ReadStartTicks(getpid()));
    return process;
  }
  ThreadNames Names(const v1::Process& process) {
    return ThreadNames(process, [this](const v1::Thread& thread) {
      ++calls_;
      found_[thread.tid()] = thread.name();
    });
  }

  std::map<uint32_t, std::string> found_;
  int calls_ = 0;
};

TEST_F(ThreadNamesTest, EveryThreadIsFoundOnce) {
  absl::Notification named, over;
  std::atomic<uint32_t> tid = 0;
  std::thread other([&] {
    tid = static_cast<uint32_t>(gettid());
    pthread_setname_np(pthread_self(), "loader \x1b[1m");
    named.Notify();
    over.WaitForNotification();
  });
  testing_support::Await(named, "the thread to have its name");
  ThreadNames names = Names(Self());
  for (int i = 0; i < 3; ++i) {
    names.Add(tid);
    names.Add(static_cast<uint32_t>(getpid()));
  }
  over.Notify();
  other.join();
  EXPECT_EQ(calls_, 2);
  EXPECT_EQ(found_.size(), 2u);
  EXPECT_EQ(found_[tid].rfind("loader ", 0), 0u);
  EXPECT_EQ(found_[tid].find('\x1b'), std::string::npos);
}

// A process in a PID namespace of its own; here its inner IDs are the same as ours.
TEST_F(ThreadNamesTest, AThreadIsFoundByItsIdInItsNamespace) {
  v1::Process process = Self();
  process.set_inner_pid(process.pid() + 1);
  ThreadNames names = Names(process);
  names.Add(static_cast<uint32_t>(getpid()));
  EXPECT_EQ(calls_, 1);
}

TEST_F(ThreadNamesTest, InvalidAndForeignThreadsHaveNoName) {
  ThreadNames names = Names(Self());
  names.Add(0);
  names.Add(1);  // not a thread of this process
  names.Add(~0u);
  v1::Process reused = Self();
  reused.set_start_ticks(reused.start_ticks() + 1);
  ThreadNames others = Names(reused);
  others.Add(static_cast<uint32_t>(getpid()));
  EXPECT_THAT(found_, IsEmpty());
}

TEST_F(ThreadNamesTest, TheMainThreadOfAnEndedProcessHasTheProcessName) {
  v1::Process over = Self();
  over.set_start_ticks(over.start_ticks() + 1);
  over.set_comm("trainer");
  ThreadNames names = Names(over);
  names.Add(over.pid());
  names.Add(over.pid() + 1);
  EXPECT_EQ(found_, (std::map<uint32_t, std::string>{{over.pid(), "trainer"}}));
}

TEST_F(ThreadNamesTest, InventedThreadsAreNotLookedUpWithoutEnd) {
  ThreadNames names = Names(Self());
  for (uint32_t i = 0; i < ThreadNames::kMostThreads; ++i) names.Add(1u << 30 | i);
  names.Add(static_cast<uint32_t>(getpid()));
  EXPECT_THAT(found_, IsEmpty());
  EXPECT_EQ(names.TakeCost(), ThreadNames::kMostThreads * ThreadNames::kCostOfLook);
  EXPECT_EQ(names.TakeCost(), 0u);
}

// Each of these makes the service look at all tasks, but only up to a limit.
TEST_F(ThreadNamesTest, InventedThreadsInAPidNamespaceHaveALimitedCost) {
  v1::Process process = Self();
  process.set_inner_pid(process.pid() + 1);
  ThreadNames names = Names(process);
  for (uint32_t i = 0; i < 1000; ++i) names.Add(1u << 30 | i);
  const uint64_t cost = names.TakeCost() / ThreadNames::kCostOfLook;
  EXPECT_GT(cost, 1000u);
  EXPECT_LT(cost, 1000u + 100u * 16u) << "tasks were read each time";
  names.Add(static_cast<uint32_t>(getpid()));
  EXPECT_EQ(calls_, 1);
}

}  // namespace
}  // namespace rocattach
