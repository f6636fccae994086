#include "userspace/watch/discovery/known_translated.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rocattach {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;
using testing::Pair;

constexpr uid_t kUser = 1000, kOther = 2000;
constexpr auto kMost = static_cast<pid_t>(KnownTranslated::kMostPerUser);

TEST(KnownTranslatedTest, ACopyIsReportedOnceForEachProcess) {
  KnownTranslated known;
  EXPECT_FALSE(known.Report({1, 10}, 7)) << "not known";
  EXPECT_TRUE(known.Add({1, 10}, kUser));
  EXPECT_TRUE(known.Report({1, 10}, 7));
  EXPECT_TRUE(known.Add({1, 10}, kUser)) << "again";
  EXPECT_FALSE(known.Report({1, 10}, 7));
  EXPECT_TRUE(known.Report({1, 10}, 8)) << "another copy";
  EXPECT_FALSE(known.Report({1, 11}, 9)) << "another process with that number";
  EXPECT_TRUE(known.Add({1, 11}, kOther));
  EXPECT_TRUE(known.Report({1, 11}, 7));
  EXPECT_THAT(known.All(), ElementsAre(Pair(1, kOther)));
  EXPECT_TRUE(known.Of(kUser).empty());
}

TEST(KnownTranslatedTest, ProcessesOfOneUserDoNotDisplaceThoseOfAnother) {
  KnownTranslated known;
  const pid_t others = 3 * kMost;
  EXPECT_TRUE(known.Add({others, 1}, kOther)) << "the oldest of all";
  for (pid_t pid = 1; pid <= kMost; ++pid) ASSERT_TRUE(known.Add({pid, 1}, kUser));
  for (pid_t pid = kMost + 1; pid <= 2 * kMost; ++pid) {
    ASSERT_FALSE(known.Add({pid, 1}, kUser));
    known.Trim(kUser, {});
    ASSERT_EQ(known.Of(kUser).size(), KnownTranslated::kMostPerUser);
  }
  EXPECT_EQ(known.Of(kUser).front().pid, kMost + 1) << "the oldest ones have gone";
  EXPECT_TRUE(known.Report({2 * kMost, 1}, 7)) << "the newest one has not";
  EXPECT_TRUE(known.Report({others, 1}, 7));
  EXPECT_TRUE(known.Add({others + 1, 1}, kOther));
}

TEST(KnownTranslatedTest, ProcessesThatHaveEndedAreRemovedFirst) {
  KnownTranslated known;
  for (pid_t pid = 1; pid <= kMost; ++pid) ASSERT_TRUE(known.Add({pid, 1}, kUser));
  EXPECT_FALSE(known.Add({kMost + 1, 1}, kUser));
  known.Trim(kUser, {{5, 1}, {6, 2}});
  EXPECT_THAT(known.All(), Not(Contains(Pair(5, kUser))));
  EXPECT_THAT(known.All(), Contains(Pair(6, kUser))) << "another one had its number";
  EXPECT_THAT(known.All(), Contains(Pair(1, kUser)));
  EXPECT_EQ(known.Of(kUser).size(), KnownTranslated::kMostPerUser);
}

}  // namespace
}  // namespace rocattach
