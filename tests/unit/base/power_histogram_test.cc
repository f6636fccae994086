#include "userspace/base/power_histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace rocattach {
namespace {

// The bucket that contains a duration; there is exactly one.
int BucketOf(uint64_t ns) {
  PowerHistogram histogram;
  histogram.Add(ns);
  EXPECT_EQ(histogram.count(), 1u) << ns;
  EXPECT_EQ(histogram.sum_ns(), ns);
  for (int e = PowerHistogram::kLowest; e <= PowerHistogram::kHighest; ++e) {
    if (histogram.In(e) == 1) return e;
  }
  ADD_FAILURE() << ns << " is in no bucket";
  return 0;
}

// Compares in integers, so without rounding: ns <= 2^e * 10^9.
bool IsAtMost(uint64_t ns, int exponent) {
  using Wide = unsigned __int128;
  return exponent >= 0 ? Wide{ns} <= Wide{1'000'000'000} << exponent
                       : Wide{ns} << -exponent <= Wide{1'000'000'000};
}

void ExpectRight(uint64_t ns) {
  const int e = BucketOf(ns);
  EXPECT_TRUE(IsAtMost(ns, e)) << ns << " in " << e;
  if (e > PowerHistogram::kLowest) {
    EXPECT_FALSE(IsAtMost(ns, e - 1)) << ns << " in " << e;
  }
}

TEST(PowerHistogram, EveryBoundIsExact) {
  ExpectRight(0);
  for (int e = PowerHistogram::kLowest; e < 34; ++e) {
    const auto bound = static_cast<uint64_t>(std::ldexp(1e9L, e));
    for (const uint64_t ns : {bound - (bound > 1 ? 1 : 0), bound, bound + 1}) {
      ExpectRight(ns);
    }
  }
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    for (const uint64_t ns : {power - 1, power, power + 1}) ExpectRight(ns);
  }
  for (uint64_t ns = 1; ns < uint64_t{1} << 62; ns = ns * 5 / 3 + 1) ExpectRight(ns);
  ExpectRight(UINT64_MAX);
}

TEST(PowerHistogram, ASecondIsInTheBucketThatEndsThere) {
  EXPECT_EQ(BucketOf(1'000'000'000), 0);
  EXPECT_EQ(BucketOf(1'000'000'001), 1);
  EXPECT_EQ(BucketOf(500'000'000), -1);
  EXPECT_EQ(BucketOf(0), PowerHistogram::kLowest);
  EXPECT_GT(BucketOf(1), PowerHistogram::kLowest);
}

TEST(PowerHistogram, GrowthIsTheDifference) {
  PowerHistogram before, sum;
  before.Add(1000);
  PowerHistogram now = before;
  now.Add(1000);
  now.Add(2'000'000'000);
  sum.AddGrowth(now, before);
  EXPECT_EQ(sum.count(), 2u);
  EXPECT_EQ(sum.sum_ns(), 2'000'001'000u);
  EXPECT_EQ(sum.UpTo(0), 1u);
  EXPECT_EQ(sum.UpTo(1), 2u);
}

}  // namespace
}  // namespace rocattach
