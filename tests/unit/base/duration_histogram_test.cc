#include "userspace/base/duration_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace rocattach {
namespace {

TEST(DurationHistogram, SumAndExtremesAreExact) {
  DurationHistogram durations;
  EXPECT_EQ(durations.Quantile(0.5), 0u);
  for (uint64_t ns = 1000; ns > 0; --ns) durations.Add(ns);
  EXPECT_EQ(durations.count(), 1000u);
  EXPECT_EQ(durations.min(), 1u);
  EXPECT_EQ(durations.max(), 1000u);
  EXPECT_EQ(durations.mean(), 500u);
  EXPECT_EQ(durations.sum(), 500'500u);
  EXPECT_NEAR(static_cast<double>(durations.Quantile(0.5)), 501, 501 * 0.016);
  EXPECT_NEAR(static_cast<double>(durations.Quantile(0.99)), 991, 991 * 0.016);
  EXPECT_LE(durations.Quantile(1.0), 1000u) << "not beyond the largest";
}

// For durations close to each other and far from 0, and for merged histograms.
TEST(DurationHistogram, DeviationsAreExact) {
  constexpr uint64_t kFar = 1'000'000'000'000;
  DurationHistogram all, some, others, none;
  EXPECT_EQ(all.deviation(), 0);
  for (uint64_t ns : {kFar + 2, kFar + 4, kFar + 4, kFar + 4, kFar + 5, kFar + 5,
                      kFar + 7, kFar + 9}) {
    all.Add(ns);
    (ns % 2 == 0 ? some : others).Add(ns);
  }
  EXPECT_NEAR(all.deviation(), std::sqrt(32.0 / 7), 1e-3);
  some.Merge(others);
  some.Merge(none);
  none.Merge(all);
  EXPECT_NEAR(some.deviation(), all.deviation(), 1e-3);
  EXPECT_NEAR(none.deviation(), all.deviation(), 1e-3);
  EXPECT_NEAR(some.average(), kFar + 5.0, 1e-3);
}

TEST(DurationHistogram, BucketsHaveEverything) {
  DurationHistogram durations;
  uint64_t count = 0, last = 0;
  for (uint64_t ns = 1; ns < 1'000'000; ns = ns * 5 / 4 + 1, ++count) durations.Add(ns);
  durations.ForEachBucket([&](uint64_t low, uint64_t high, uint64_t times) {
    EXPECT_GE(low, last);
    EXPECT_LT(low, high);
    EXPECT_GT(times, 0u);
    last = high;
    count -= times;
  });
  EXPECT_EQ(count, 0u);
}

TEST(DurationHistogram, StaysBoundedAndClose) {
  DurationHistogram durations;
  constexpr uint64_t kMany = 1'000'000;
  for (uint64_t ns = 1; ns <= kMany; ++ns) durations.Add(ns);
  EXPECT_EQ(durations.count(), kMany);
  EXPECT_EQ(durations.max(), kMany);
  EXPECT_NEAR(static_cast<double>(durations.Quantile(0.5)), kMany / 2.0,
              kMany / 2.0 * 0.016);
}

TEST(DurationHistogram, QuantilesAreCloseToExactOnes) {
  std::mt19937_64 random(3);
  for (uint64_t range : {100ull, 100'000ull, 1'000'000'000'000ull}) {
    DurationHistogram histogram, first, second;
    std::vector<uint64_t> exact;
    for (int i = 0; i < 20'000; ++i) {
      uint64_t ns = random() % range;
      exact.push_back(ns);
      histogram.Add(ns);
      (i % 3 ? first : second).Add(ns);
    }
    first.Merge(second);
    std::sort(exact.begin(), exact.end());
    for (double q : {0.0, 0.01, 0.5, 0.9, 0.99, 1.0}) {
      size_t rank = std::min(
          exact.size() - 1, static_cast<size_t>(q * static_cast<double>(exact.size())));
      double want = static_cast<double>(exact[rank]);
      EXPECT_NEAR(static_cast<double>(histogram.Quantile(q)), want, want * 0.032 + 1);
      EXPECT_NEAR(static_cast<double>(first.Quantile(q)), want, want * 0.032 + 1);
    }
  }
}

TEST(DurationHistogram, Extremes) {
  DurationHistogram histogram;
  EXPECT_EQ(histogram.Quantile(0.5), 0u);
  histogram.Add(~uint64_t{0});
  histogram.Add(0);
  EXPECT_EQ(histogram.Quantile(0), 0u);
  EXPECT_GT(histogram.Quantile(1), uint64_t{1} << 63);
}

}  // namespace
}  // namespace rocattach
