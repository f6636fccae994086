#include "userspace/record/drain/drain_shares.h"

#include <gtest/gtest.h>

namespace rocattach {
namespace {

TEST(DrainShares, ATargetThatIsAloneGetsTheWholeRound) {
  DrainShares shares;
  EXPECT_EQ(shares.Of(1000), DrainShares::kRoundCost);
  shares.Add(1000);
  EXPECT_EQ(shares.Of(1000), DrainShares::kRoundCost);
}

TEST(DrainShares, UsersGetTheSameHoweverManyTargetsTheyHave) {
  DrainShares shares;
  shares.Add(1000);
  for (int i = 0; i < 4; ++i) shares.Add(1001);
  EXPECT_EQ(shares.Of(1000), DrainShares::kRoundCost / 2);
  EXPECT_EQ(shares.Of(1001), DrainShares::kRoundCost / 2 / 4);
  // A user whose targets are not behind competes with both.
  EXPECT_EQ(shares.Of(1002), DrainShares::kRoundCost / 3);
  shares.Clear();
  EXPECT_EQ(shares.Of(1001), DrainShares::kRoundCost);
}

TEST(DrainShares, NoTargetGetsLessThanTheLeastShare) {
  DrainShares shares;
  for (int i = 0; i < 100'000; ++i) shares.Add(1000);
  EXPECT_EQ(shares.Of(1000), DrainShares::kLeastShare);
}

}  // namespace
}  // namespace rocattach
