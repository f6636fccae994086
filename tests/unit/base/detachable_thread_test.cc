#include "userspace/base/detachable_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "tests/await.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

constexpr absl::Duration kLong = absl::Minutes(1);
constexpr absl::Duration kShort = absl::Milliseconds(1);

TEST(DetachableThreadTest, AStopWaitsForTheEnd) {
  bool ended = false;  // not atomic: the stop joins the thread
  DetachableThread thread("test", kLong, [&ended](const auto& stop) {
    while (!stop.WaitFor(kShort)) {
    }
    EXPECT_TRUE(stop.stop_requested());
    ended = true;
  });
  EXPECT_TRUE(thread.Stop());
  EXPECT_TRUE(ended);
  EXPECT_TRUE(thread.Stop()) << "once more";
}

TEST(DetachableThreadTest, ARequestEndsItsWait) {
  absl::Notification ended;
  DetachableThread thread("test", kLong, [&ended](const auto& stop) {
    EXPECT_TRUE(stop.WaitFor(absl::Hours(24)));
    ended.Notify();
  });
  thread.RequestStop();
  testing_support::Await(ended, "the end of the thread");
}

TEST(DetachableThreadTest, AWaitWithoutARequestTimesOut) {
  DetachableThread thread("test", kLong, [](const auto& stop) {
    const uint64_t begin_ns = BootNs();
    while (!stop.WaitFor(kShort)) EXPECT_GE(BootNs() - begin_ns, 1'000'000u);
  });
}

TEST(DetachableThreadTest, AThreadThatDoesNotEndIsLeftBehind) {
  struct Shared {
    absl::Notification proceed, ended;
  };
  const auto shared = std::make_shared<Shared>();
  {
    DetachableThread thread("test", kShort, [shared](const auto& stop) {
      shared->proceed.WaitForNotification();
      // The argument is still valid after the thread has been left behind.
      EXPECT_TRUE(stop.stop_requested());
      shared->ended.Notify();
    });
    EXPECT_FALSE(thread.Stop());
    EXPECT_FALSE(thread.Stop()) << "once more";
  }
  EXPECT_FALSE(shared->ended.HasBeenNotified());
  shared->proceed.Notify();
  testing_support::Await(shared->ended, "the end of the thread");
}

TEST(DetachableThreadTest, ItHasItsName) {
  std::string name;
  {
    DetachableThread thread("rwa-test-thread", kLong, [&name](const auto&) {
      char text[16] = {};
      EXPECT_EQ(pthread_getname_np(pthread_self(), text, sizeof(text)), 0);
      name = text;
    });
  }
  EXPECT_EQ(name, "rwa-test-thread");
}

}  // namespace
}  // namespace rocattach
