#include "userspace/base/wake_event.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace rocattach {
namespace {

TEST(WakeEvent, SignalsOfThePastWakeOnce) {
  WakeEvent event;
  ASSERT_TRUE(event.status().ok()) << event.status();
  event.Signal();
  event.Signal();
  EXPECT_TRUE(event.WaitFor(WakeEvent::kForever));
  EXPECT_FALSE(event.WaitFor(0));
}

TEST(WakeEvent, WakesAThreadThatWaits) {
  WakeEvent event;
  bool woken = false;
  std::thread waiter([&] { woken = event.WaitFor(WakeEvent::kForever); });
  event.Signal();
  waiter.join();
  EXPECT_TRUE(woken);
}

TEST(WakeEvent, WaitsForTheTimeout) {
  WakeEvent event;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(event.WaitFor(5'000'000));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(5));
}

}  // namespace
}  // namespace rocattach
