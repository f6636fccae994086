#include "userspace/record/duration_statistics.h"

#include <gtest/gtest.h>

namespace rocattach {
namespace {

TEST(DurationStatistics, IsExactForFewValues) {
  DurationStatistics statistics;
  EXPECT_EQ(statistics.Quantile(0.5), 0u);
  for (uint64_t ns = 1000; ns > 0; --ns) statistics.Add(ns);
  EXPECT_EQ(statistics.count(), 1000u);
  EXPECT_EQ(statistics.min(), 1u);
  EXPECT_EQ(statistics.max(), 1000u);
  EXPECT_EQ(statistics.mean(), 500u);
  EXPECT_EQ(statistics.Quantile(0.5), 501u);
  EXPECT_EQ(statistics.Quantile(0.99), 991u);
  EXPECT_EQ(statistics.Quantile(1.0), 1000u);
}

TEST(DurationStatistics, StaysBoundedAndClose) {
  DurationStatistics statistics;
  constexpr uint64_t kMany = 1'000'000;
  for (uint64_t ns = 1; ns <= kMany; ++ns) statistics.Add(ns);
  EXPECT_EQ(statistics.count(), kMany);
  EXPECT_EQ(statistics.max(), kMany);
  EXPECT_NEAR(static_cast<double>(statistics.Quantile(0.5)), kMany / 2.0,
              kMany / 100.0);
}

}  // namespace
}  // namespace rocattach
