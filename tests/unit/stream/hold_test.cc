#include "userspace/stream/hold.h"

#include <gtest/gtest.h>

namespace rocattach {
namespace {

v1::WindowEvent Window(v1::WindowMode mode) {
  v1::WindowEvent window;
  window.set_mode(mode);
  window.set_hit_ns(1000);
  window.set_stopped_ns(1400);
  window.set_hold_end_ns(1500);
  window.set_released_ns(1900);
  return window;
}

TEST(HoldTest, IsFromTheHitToTheRelease) {
  EXPECT_EQ(HoldNs(Window(v1::WINDOW_MODE_HELD)), 900u);
  EXPECT_EQ(HoldNs(Window(v1::WINDOW_MODE_SIGNALLED)), 900u);
}

TEST(HoldTest, ABlockedThreadHasNoHit) {
  EXPECT_EQ(HoldNs(Window(v1::WINDOW_MODE_BLOCKED)), 500u);
}

TEST(HoldTest, WithoutAnAttachTheProbeReleasesIt) {
  v1::WindowEvent window = Window(v1::WINDOW_MODE_HELD);
  window.clear_released_ns();
  EXPECT_EQ(HoldNs(window), 500u);
}

TEST(HoldTest, NoThreadWasHeld) {
  for (const v1::WindowMode mode :
       {v1::WINDOW_MODE_TAKEN_OVER, v1::WINDOW_MODE_LISTENER}) {
    EXPECT_EQ(HoldNs(Window(mode)), 0u) << v1::WindowMode_Name(mode);
  }
}

TEST(HoldTest, IsZeroIfTimesAreMissingOrWrong) {
  v1::WindowEvent window = Window(v1::WINDOW_MODE_HELD);
  window.set_hit_ns(0);
  EXPECT_EQ(HoldNs(window), 0u);
  window.set_hit_ns(5000);
  EXPECT_EQ(HoldNs(window), 0u) << "after its release";
  window = Window(v1::WINDOW_MODE_HELD);
  window.clear_released_ns();
  window.clear_hold_end_ns();
  EXPECT_EQ(HoldNs(window), 0u) << "adopted: neither is known";
}

}  // namespace
}  // namespace rocattach
