#include "userspace/record/sampling_history.h"

#include <gtest/gtest.h>

namespace rocattach {
namespace {

TEST(SamplingHistoryTest, ARecordStandsForTheDispatchesItWasSampledFrom) {
  SamplingHistory history;
  EXPECT_FALSE(history.ever());
  EXPECT_EQ(history.WeightAt(100), 1u);
  history.Change(1000, SamplingLevel::OneIn(8));
  history.Change(2000, SamplingLevel::CountsOnly());
  history.Change(3000, SamplingLevel::OneIn(64));
  history.Change(4000, SamplingLevel::Every());
  EXPECT_TRUE(history.ever());
  EXPECT_EQ(history.WeightAt(999), 1u);
  EXPECT_EQ(history.WeightAt(1000), 8u);
  EXPECT_EQ(history.WeightAt(1999), 8u);
  EXPECT_EQ(history.WeightAt(2500), 1u);
  EXPECT_EQ(history.WeightAt(3500), 64u);
  EXPECT_EQ(history.WeightAt(5000), 1u);
}

TEST(SamplingLevelTest, HasNoDivisorBeyondTheLimit) {
  EXPECT_TRUE(SamplingLevel::OneIn(0).every());
  EXPECT_TRUE(SamplingLevel::OneIn(1).every());
  EXPECT_EQ(SamplingLevel::OneIn(1024).divisor(), 1024u);
  EXPECT_TRUE(SamplingLevel::OneIn(1025).counts_only());
  EXPECT_EQ(SamplingLevel::CountsOnly().abi(), ROCATTACH_SAMPLING_NONE);
  EXPECT_EQ(SamplingLevel::OneIn(8).Text(), "one dispatch in 8");
}

}  // namespace
}  // namespace rocattach
