#include "userspace/base/nearest_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rocattach {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(EditDistance, CountsEditsAndSwaps) {
  EXPECT_EQ(EditDistance("SQ_WAVES", "SQ_WAVES", 3), 0u);
  EXPECT_EQ(EditDistance("SQ_WAVES", "sq_waves", 3), 0u);
  EXPECT_EQ(EditDistance("SQ_WAVES", "SQ_WAVE", 3), 1u);
  EXPECT_EQ(EditDistance("SQ_WAVES", "SQ_WAEVS", 3), 1u);
  EXPECT_EQ(EditDistance("abc", "xyz", 5), 3u);
  EXPECT_EQ(EditDistance("", "abc", 5), 3u);
}

TEST(EditDistance, GivesUpBeyondTheLimit) {
  EXPECT_EQ(EditDistance("abcdef", "uvwxyz", 2), 3u);
  EXPECT_EQ(EditDistance(std::string(100000, 'a'), "b", 4), 5u);
}

TEST(NearestNames, PutsTheNearestFirstAndLeavesOutTheFar) {
  const std::vector<std::string> names = {"GRBM_COUNT", "SQ_WAVE_CYCLES", "SQ_WAVES",
                                          "SQ_WAVES_LT_64"};
  EXPECT_THAT(NearestNames("SQ_WAVS", names, 1), ElementsAre("SQ_WAVES"));
  EXPECT_THAT(NearestNames("HELLO", names, 3), IsEmpty());
}

TEST(NearestNames, FallsBackToParts) {
  EXPECT_THAT(
      NearestNames("RDREQ", {"TCC_HIT", "TCC_EA_RDREQ_DRAM", "TCC_EA_RDREQ"}, 3),
      ElementsAre("TCC_EA_RDREQ", "TCC_EA_RDREQ_DRAM"));
}

TEST(DidYouMean, ReadsAsASentence) {
  EXPECT_EQ(DidYouMean({}), "");
  EXPECT_EQ(DidYouMean({"A"}), "; did you mean A?");
  EXPECT_EQ(DidYouMean({"A", "B", "C"}), "; did you mean A, B or C?");
}

}  // namespace
}  // namespace rocattach
