#include "userspace/watch/serving_threads.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "userspace/base/clock.h"
#include "userspace/base/wake_event.h"

namespace rocattach {
namespace {

constexpr absl::Duration kLong = absl::Hours(1);
constexpr uint32_t kLongMsec = 3'600'000;
constexpr uid_t kKeeper = 1000, kOther = 2000;
constexpr int kThreads = 4, kTurns = kThreads / 2;

// What the threads and the test share; it may outlive both.
class Kernel {
 public:
  void Post(uid_t uid, uint32_t type = ROCATTACH_EVENT_WINDOW) {
    rocattach_event event = {};
    event.type = static_cast<decltype(event.type)>(type);
    event.charged_uid = uid;
    event.time_ns = BootNs();
    {
      absl::MutexLock lock(&mutex_);
      events_.push_back(event);
    }
    wake_.Signal();
  }
  bool Take(rocattach_event* event, int stop_fd) {
    for (;;) {
      {
        absl::MutexLock lock(&mutex_);
        if (!events_.empty()) {
          *event = events_.front();
          events_.pop_front();
          return true;
        }
      }
      pollfd fds[2] = {{wake_.fd(), POLLIN, 0}, {stop_fd, POLLIN, 0}};
      poll(fds, 2, -1);
      wake_.Clear();
      if (fds[0].revents == 0 && fds[1].revents != 0) return false;
    }
  }

 private:
  WakeEvent wake_;
  absl::Mutex mutex_;
  std::deque<rocattach_event> events_ ABSL_GUARDED_BY(mutex_);
};

class ServingThreadsTest : public testing::Test {
 protected:
  // Events of kKeeper are kept until go_on_; each of the others is counted by `served`.
  ServingThreads::Options Options(absl::BlockingCounter* served,
                                  uint32_t hold_timeout_msec = kLongMsec) {
    ServingThreads::Options options;
    options.threads = kThreads;
    options.hold_timeout_msec = hold_timeout_msec;
    options.take = [this](rocattach_event* event, int stop_fd) {
      return kernel_.Take(event, stop_fd);
    };
    options.serve = [this, served](const rocattach_event& event, const Lead&) {
      if (event.charged_uid == kKeeper) {
        ++kept_;
        go_on_.WaitForNotification();
      } else if (served != nullptr) {
        served->DecrementCount();
      }
      return true;
    };
    options.expire = [this](const rocattach_event& event) {
      EXPECT_EQ(event.charged_uid, kKeeper);
      expired_.Notify();
    };
    return options;
  }

  Kernel kernel_;
  std::atomic<int> kept_ = 0;
  absl::Notification go_on_, expired_;
};

TEST_F(ServingThreadsTest, AUserThatKeepsThreadsCostsOthersNothing) {
  constexpr int kOthers = 100;
  absl::BlockingCounter served(kOthers);
  ServingThreads threads(Options(&served));
  ASSERT_TRUE(threads.Start().ok());
  for (int i = 0; i < 10; ++i) kernel_.Post(kKeeper);
  for (int i = 0; i < kOthers; ++i) kernel_.Post(kOther);
  served.Wait();
  EXPECT_EQ(kept_, kTurns) << "the rest waits without a thread";
  EXPECT_GE(threads.Kept(absl::ZeroDuration()), size_t{kTurns});
  EXPECT_EQ(threads.Kept(kLong), 0u);
  go_on_.Notify();
  EXPECT_TRUE(threads.Stop(kLong));
  EXPECT_EQ(kept_, 10) << "those that waited had their turns";
  EXPECT_TRUE(threads.Stop(kLong)) << "again";
}

TEST_F(ServingThreadsTest, WhatWaitsForATurnUntilItsHoldIsOverExpires) {
  ServingThreads threads(Options(nullptr, /*hold_timeout_msec=*/1));
  ASSERT_TRUE(threads.Start().ok());
  for (int i = 0; i < kTurns + 1; ++i) kernel_.Post(kKeeper);
  expired_.WaitForNotification();
  go_on_.Notify();
  EXPECT_TRUE(threads.Stop(kLong));
  EXPECT_EQ(kept_, kTurns);
}

TEST_F(ServingThreadsTest, ThreadsThatWereLeftBehindMayEnd) {
  ServingThreads threads(Options(nullptr));
  ASSERT_TRUE(threads.Start().ok());
  kernel_.Post(kKeeper);
  while (kept_ == 0) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_FALSE(threads.Stop(absl::ZeroDuration()));
  go_on_.Notify();
  EXPECT_TRUE(threads.Stop(kLong));
}

// A collector that has reported in waits for as long as it takes.
TEST_F(ServingThreadsTest, AReportThatWaitsForATurnIsServed) {
  ServingThreads threads(Options(nullptr, /*hold_timeout_msec=*/1));
  ASSERT_TRUE(threads.Start().ok());
  for (int i = 0; i < kTurns; ++i) kernel_.Post(kKeeper);
  kernel_.Post(kKeeper, ROCATTACH_EVENT_READY);
  kernel_.Post(kKeeper);
  expired_.WaitForNotification();  // the window that came after it
  go_on_.Notify();
  EXPECT_TRUE(threads.Stop(kLong));
  EXPECT_EQ(kept_, kTurns + 1);
}

TEST_F(ServingThreadsTest, AThreadThatMustEndIsReplaced) {
  constexpr int kEvents = 100;
  absl::BlockingCounter served(kEvents);
  ServingThreads::Options options = Options(&served);
  options.serve = [serve = options.serve](const rocattach_event& event,
                                          const Lead& lead) {
    (void)serve(event, lead);
    return false;
  };
  ServingThreads threads(options);
  ASSERT_TRUE(threads.Start().ok());
  for (int i = 0; i < kEvents; ++i) kernel_.Post(kOther);
  served.Wait();
  EXPECT_TRUE(threads.Stop(kLong));
}

}  // namespace
}  // namespace rocattach
