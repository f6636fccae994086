#include "userspace/watch/windows/serving_threads.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "tests/await.h"
#include "userspace/base/clock.h"
#include "userspace/base/wake_event.h"

namespace rocattach {
namespace {

constexpr absl::Duration kLongServing = absl::Hours(1);
constexpr uint32_t kLongMsec = 3'600'000;
constexpr uid_t kServedKeeper = 1000, kServedOther = 2000;
constexpr int kThreads = 4, kTurns = kThreads / 2;

// State that the threads and the test share; it may outlive both.
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
  bool WaitForEvent(rocattach_event* event, int stop_fd) {
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
  // Events of kServedKeeper are kept until go_on_; `served` counts each of the others.
  ServingThreads::Options Options(std::atomic<int>* served,
                                  uint32_t hold_timeout_msec = kLongMsec) {
    ServingThreads::Options options;
    options.threads = kThreads;
    options.hold_timeout_msec = hold_timeout_msec;
    options.wait_for_event = [this](rocattach_event* event, int stop_fd) {
      return kernel_.WaitForEvent(event, stop_fd);
    };
    options.serve = [this, served](const rocattach_event& event, const Lead&) {
      if (event.charged_uid == kServedKeeper) {
        ++kept_;
        go_on_.WaitForNotification();
      } else if (served != nullptr) {
        ++*served;
      }
      return true;
    };
    options.expire = [this](const rocattach_event& event) {
      EXPECT_EQ(event.charged_uid, kServedKeeper);
      expired_.Notify();
    };
    return options;
  }

  Kernel kernel_;
  std::atomic<int> kept_ = 0;
  absl::Notification go_on_, expired_;
};

TEST_F(ServingThreadsTest, AUserThatKeepsThreadsDoesNotDelayOthers) {
  constexpr int kOthers = 100;
  std::atomic<int> served = 0;
  ServingThreads threads(Options(&served));
  ASSERT_TRUE(threads.Start().ok());
  for (int i = 0; i < 10; ++i) kernel_.Post(kServedKeeper);
  for (int i = 0; i < kOthers; ++i) kernel_.Post(kServedOther);
  testing_support::Await([&] { return served == kOthers; }, "the windows of others");
  EXPECT_EQ(kept_, kTurns) << "the rest waits without a thread";
  EXPECT_GE(threads.Kept(absl::ZeroDuration()), size_t{kTurns});
  EXPECT_EQ(threads.Kept(kLongServing), 0u);
  go_on_.Notify();
  EXPECT_TRUE(threads.Stop(kLongServing));
  EXPECT_EQ(kept_, 10) << "those that waited had their turns";
  EXPECT_TRUE(threads.Stop(kLongServing)) << "again";
}

TEST_F(ServingThreadsTest, AWindowThatWaitsForATurnBeyondItsHoldExpires) {
  ServingThreads threads(Options(nullptr, /*hold_timeout_msec=*/1));
  ASSERT_TRUE(threads.Start().ok());
  for (int i = 0; i < kTurns + 1; ++i) kernel_.Post(kServedKeeper);
  testing_support::Await(expired_, "the window to expire");
  go_on_.Notify();
  EXPECT_TRUE(threads.Stop(kLongServing));
  EXPECT_EQ(kept_, kTurns);
}

TEST_F(ServingThreadsTest, ThreadsThatWereLeftBehindMayEnd) {
  ServingThreads threads(Options(nullptr));
  ASSERT_TRUE(threads.Start().ok());
  kernel_.Post(kServedKeeper);
  testing_support::Await([&] { return kept_ != 0; }, "the first window");
  EXPECT_FALSE(threads.Stop(absl::ZeroDuration()));
  go_on_.Notify();
  EXPECT_TRUE(threads.Stop(kLongServing));
}

// There is no time limit for a collector that has reported in.
TEST_F(ServingThreadsTest, AReportThatWaitsForATurnIsServed) {
  ServingThreads threads(Options(nullptr, /*hold_timeout_msec=*/1));
  ASSERT_TRUE(threads.Start().ok());
  for (int i = 0; i < kTurns; ++i) kernel_.Post(kServedKeeper);
  kernel_.Post(kServedKeeper, ROCATTACH_EVENT_READY);
  kernel_.Post(kServedKeeper);
  testing_support::Await(expired_, "the window after the report to expire");
  go_on_.Notify();
  EXPECT_TRUE(threads.Stop(kLongServing));
  EXPECT_EQ(kept_, kTurns + 1);
}

TEST_F(ServingThreadsTest, AThreadThatMustEndIsReplaced) {
  constexpr int kEvents = 100;
  std::atomic<int> served = 0;
  ServingThreads::Options options = Options(&served);
  options.serve = [serve = options.serve](const rocattach_event& event,
                                          const Lead& lead) {
    (void)serve(event, lead);
    return false;
  };
  ServingThreads threads(options);
  ASSERT_TRUE(threads.Start().ok());
  for (int i = 0; i < kEvents; ++i) kernel_.Post(kServedOther);
  testing_support::Await([&] { return served == kEvents; }, "all windows");
  EXPECT_TRUE(threads.Stop(kLongServing));
}

}  // namespace
}  // namespace rocattach
