#include "userspace/collector/common/clock_map.h"

#include <gtest/gtest.h>

namespace rocattach::collector {
namespace {

TEST(ClockMapTest, ConvertsOnBothSides) {
  ClockMap map;
  EXPECT_FALSE(map.Covers(1000));
  // 100 MHz: ten nanoseconds a tick.
  ASSERT_TRUE(map.Set(1'000'000, 5'000'000'000, 5'000'000, 5'040'000'000));
  EXPECT_EQ(map.ToNs(5'000'000), 5'040'000'000u);
  EXPECT_EQ(map.ToNs(5'000'100), 5'040'001'000u);
  EXPECT_EQ(map.ToNs(4'999'900), 5'039'999'000u);
  EXPECT_EQ(map.ticks_per_second(), 100'000'000u);
  EXPECT_TRUE(map.Covers(5'000'000));
  EXPECT_TRUE(map.Covers(5'000'000 + 3'999'000));
  EXPECT_TRUE(map.Covers(5'000'000 - 3'999'000));
  EXPECT_FALSE(map.Covers(5'000'000 + 4'100'000));
  EXPECT_FALSE(map.Covers(5'000'000 - 4'100'000));
}

TEST(ClockMapTest, KeepsPrecisionOverLongKernels) {
  ClockMap map;
  // Almost 25 MHz: 40.0004 ns a tick, over 2^22 ticks.
  uint64_t ticks = uint64_t{1} << 22;
  uint64_t ns = ticks * 400'004 / 10'000;
  ASSERT_TRUE(map.Set(50'000'000, 1'000'000'000'000, 50'000'000 + ticks,
                      1'000'000'000'000 + ns));
  // One second back.
  uint64_t start = map.ToNs(50'000'000 + ticks - 25'000'000);
  uint64_t expected = 1'000'000'000'000 + ns - 1'000'010'000;
  EXPECT_NEAR(static_cast<double>(start), static_cast<double>(expected), 20);
}

TEST(ClockMapTest, RefusesNonsense) {
  ClockMap map;
  EXPECT_FALSE(map.Set(10, 10, 10, 20));
  EXPECT_FALSE(map.Set(10, 20, 20, 20));
  EXPECT_FALSE(map.Set(0, 0, 1, 1'000'000));      // a kilohertz
  EXPECT_FALSE(map.Set(0, 0, 1'000'000'000, 1));  // an exahertz
  EXPECT_FALSE(map.Covers(10));
}

}  // namespace
}  // namespace rocattach::collector
