#include "userspace/service/run_duration.h"

#include <gtest/gtest.h>

namespace rocattach {
namespace {

constexpr uint64_t kMost = RunDuration::kMostNs;

TEST(RunDurationTest, CountsFromWhenAllAreReady) {
  RunDuration duration;
  EXPECT_EQ(duration.BeganNs(100, 0, false), 0u);
  EXPECT_EQ(duration.BeganNs(200, 150, false), 0u);
  EXPECT_EQ(duration.BeganNs(300, 150, true), 300u);
  EXPECT_EQ(duration.BeganNs(kMost * 9, 150, false), 300u) << "it stays";
}

// For example, a session that is refused late, or a collector that never answers.
TEST(RunDurationTest, AnAnswerThatIsLateIsNotWaitedFor) {
  RunDuration duration;
  EXPECT_EQ(duration.BeganNs(kMost + 149, 150, false), 0u);
  EXPECT_EQ(duration.BeganNs(kMost + 150, 150, false), kMost + 150);
}

// The calling thread was not scheduled for nine seconds.
TEST(RunDurationTest, ALateCallerDoesNotProlongIt) {
  for (const bool ready : {false, true}) {
    RunDuration duration;
    EXPECT_EQ(duration.BeganNs(9 * kMost, 150, ready), kMost + 150);
  }
}

// Without an attach nothing is recorded, so nothing is recorded for too long.
TEST(RunDurationTest, WithoutAnAttachItWaits) {
  RunDuration duration;
  EXPECT_EQ(duration.BeganNs(9 * kMost, 0, false), 0u);
  EXPECT_EQ(duration.BeganNs(10 * kMost, 0, true), 10 * kMost);
}

}  // namespace
}  // namespace rocattach
