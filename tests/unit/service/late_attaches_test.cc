#include "userspace/service/late_attaches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"

namespace rocattach {
namespace {

using Pids = std::vector<pid_t>;
using testing::ElementsAre;

// Notes what is attached to, and answers that process 2 had no window.
class LateAttachesTest : public testing::Test {
 protected:
  LateAttaches::AttachFunction Attach() {
    return [this](const Pids& pids) {
      absl::MutexLock lock(&mutex_);
      batches_.push_back(pids);
      std::map<pid_t, absl::Status> failed;
      for (pid_t pid : pids) {
        if (pid == 2) failed[pid] = absl::NotFoundError("no window");
      }
      return failed;
    };
  }
  LateAttaches::DoneFunction Done() {
    return [this](const std::map<pid_t, absl::Status>& failed) {
      absl::MutexLock lock(&mutex_);
      failed_ = failed;
      ++done_;
    };
  }
  void AwaitBatches(size_t count) {
    absl::MutexLock lock(&mutex_);
    auto enough = [&] { return batches_.size() >= count; };
    mutex_.Await(absl::Condition(&enough));
  }
  void AwaitDone() {
    absl::MutexLock lock(&mutex_);
    auto is_done = [&] { return done_ > 0; };
    mutex_.Await(absl::Condition(&is_done));
  }
  ProcessId Self() const { return {getpid(), *ReadStartTicks(getpid())}; }

  absl::Mutex mutex_;
  std::vector<Pids> batches_;
  std::map<pid_t, absl::Status> failed_;
  int done_ = 0;
};

TEST_F(LateAttachesTest, ARequestIsOneBatchAndIsAnswered) {
  LateAttaches late(Attach(), Done());
  late.Request({1, 2, 3});
  AwaitDone();
  late.Stop();
  EXPECT_THAT(batches_, ElementsAre(Pids{1, 2, 3}));
  ASSERT_EQ(failed_.size(), 1u);
  EXPECT_EQ(failed_.begin()->first, 2);
}

TEST_F(LateAttachesTest, ARequestForNobodyIsAnsweredAsWell) {
  LateAttaches late(Attach(), Done());
  late.Request({});
  AwaitDone();
  late.Stop();
  EXPECT_TRUE(failed_.empty());
}

TEST_F(LateAttachesTest, AProcessIsRetriedOnceAndSilently) {
  LateAttaches late(Attach(), Done());
  late.Retry(Self());
  AwaitBatches(1);
  late.Retry(Self());
  late.Request({7});
  AwaitDone();
  late.Stop();
  EXPECT_THAT(batches_, ElementsAre(Pids{getpid()}, Pids{7}));
  EXPECT_EQ(done_, 1);
}

// Its pid may be another process's by now.
TEST_F(LateAttachesTest, AProcessThatIsGoneIsNotRetried) {
  LateAttaches late(Attach(), Done());
  ProcessId earlier = Self();
  --earlier.start_ticks;
  late.Retry(earlier);
  late.Request({7});
  AwaitDone();
  late.Stop();
  EXPECT_THAT(batches_, ElementsAre(Pids{7}));
}

// The request is not lost, whatever the thread was doing.
TEST_F(LateAttachesTest, WhatHasNotBegunAtTheEndIsCancelled) {
  absl::Notification begun, go_on;
  auto attach = [&](const Pids& pids) {
    if (!begun.HasBeenNotified()) {
      begun.Notify();
      go_on.WaitForNotification();
    }
    return Attach()(pids);
  };
  LateAttaches late(attach, Done());
  late.Enter(Self());
  begun.WaitForNotification();
  late.Request({7, 8});
  std::thread stopper([&] { late.Stop(); });
  go_on.Notify();
  stopper.join();
  // Stopped before or after that batch has ended: each request has an answer.
  EXPECT_EQ(done_, 1);
  if (batches_.size() == 1) {
    ASSERT_EQ(failed_.size(), 2u);
    EXPECT_TRUE(absl::IsCancelled(failed_.at(7))) << failed_.at(7);
  } else {
    EXPECT_THAT(batches_, ElementsAre(Pids{getpid()}, Pids{7, 8}));
  }
}

TEST_F(LateAttachesTest, StoppedItDoesNothingMore) {
  LateAttaches late(Attach(), Done());
  late.Stop();
  late.Request({7});
  late.Stop();
  EXPECT_TRUE(batches_.empty());
}

}  // namespace
}  // namespace rocattach
