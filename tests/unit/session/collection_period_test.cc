#include "userspace/session/collection_period.h"

#include <gtest/gtest.h>

namespace rocattach {
namespace {

TEST(ParseCollectionPeriod, ReadsRocprofv3sForm) {
  EXPECT_EQ(*ParseCollectionPeriod("5:1:0"),
            (CollectionPeriod{5'000'000'000, 1'000'000'000, 0}));
  EXPECT_EQ(*ParseCollectionPeriod("0:10:3", "msec"),
            (CollectionPeriod{0, 10'000'000, 3}));
  EXPECT_EQ(*ParseCollectionPeriod("0.5:1:1", "min"),
            (CollectionPeriod{30'000'000'000, 60'000'000'000, 1}));
  EXPECT_EQ(*ParseCollectionPeriod("100ms:2s:4", "hour"),
            (CollectionPeriod{100'000'000, 2'000'000'000, 4}));
}

TEST(ParseCollectionPeriod, RefusesTheRest) {
  for (const char* text : {"", "1:2", "1:2:3:4", "1:0:1", "-1:2:3", "a:b:c", "1:2:x",
                           "1:2:-1", "1lightyear:2:3", "1e3:2:3", "1.2.3:4:5",
                           "99999999999999999999:1:1", ":1:1", "1::1", "1:1:"}) {
    EXPECT_FALSE(ParseCollectionPeriod(text).ok()) << text;
  }
  EXPECT_FALSE(ParseCollectionPeriod("1:1:1", "fortnight").ok());
}

TEST(CollectionSchedule, AlternatesAndEnds) {
  const CollectionSchedule schedule({{10, 5, 2}, {1, 1, 1}});
  struct Expectation {
    uint64_t at;
    bool collect;
    uint64_t until;
  };
  for (const Expectation& e : std::initializer_list<Expectation>{{0, false, 10},
                                                                 {9, false, 10},
                                                                 {10, true, 15},
                                                                 {14, true, 15},
                                                                 {15, false, 25},
                                                                 {25, true, 30},
                                                                 {30, false, 31},
                                                                 {31, true, 32}}) {
    const auto step = schedule.At(e.at);
    EXPECT_EQ(step.collect, e.collect) << e.at;
    EXPECT_EQ(step.until_ns, e.until) << e.at;
    EXPECT_FALSE(step.over);
  }
  EXPECT_TRUE(schedule.At(32).over);
  EXPECT_FALSE(schedule.At(32).collect);
}

TEST(CollectionSchedule, CountsThePeriodsThatHaveBegun) {
  const CollectionSchedule schedule({{2, 3, 2}, {4, 1, 1}});  // at 2, 7 and 14
  const uint64_t expected[] = {0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3};
  for (uint64_t at = 0; at < 17; ++at) {
    EXPECT_EQ(schedule.Begun(at), expected[at]) << at;
  }
  EXPECT_EQ(CollectionSchedule({}).Begun(0), 1u);
  EXPECT_EQ(CollectionSchedule({{0, 5, 0}}).Begun(12), 3u);
  const CollectionSchedule huge({{1, UINT64_MAX / 2, UINT64_MAX}, {1, 1, 1}});
  EXPECT_EQ(huge.Begun(UINT64_MAX), UINT64_MAX);
}

TEST(CollectionSchedule, CollectsUntilTheNextBreak) {
  // Collects from 2 to 5, from 7 to 10, and, without a break, from 10 to 14.
  const CollectionSchedule schedule({{2, 3, 2}, {0, 2, 2}});
  const uint64_t expected[] = {0, 1, 5, 5, 5, 5, 6, 14, 14, 14, 14, 14, 14, 14, 14, 15};
  for (uint64_t at = 0; at < 16; ++at) {
    EXPECT_EQ(schedule.CollectsUntil(at), expected[at]) << at;
  }
  EXPECT_EQ(CollectionSchedule({}).CollectsUntil(3), UINT64_MAX);
  EXPECT_EQ(CollectionSchedule({{0, 5, 0}}).CollectsUntil(3), UINT64_MAX);
  EXPECT_EQ(CollectionSchedule({{0, 5, 1}, {1, 5, 0}}).CollectsUntil(3), 5u);
}

TEST(CollectionSchedule, ForEverAndWithoutPeriods) {
  EXPECT_TRUE(CollectionSchedule({}).At(123).collect);
  EXPECT_EQ(CollectionSchedule({}).At(123).until_ns, UINT64_MAX);
  const CollectionSchedule ever({{10, 10, 0}});
  EXPECT_FALSE(ever.At(1'000'000'005).collect);
  EXPECT_TRUE(ever.At(1'000'000'015).collect);
  EXPECT_FALSE(ever.At(UINT64_MAX - 1).over);
  const CollectionSchedule huge({{1, UINT64_MAX / 2, UINT64_MAX}, {1, 1, 1}});
  EXPECT_TRUE(huge.At(5).collect);
  EXPECT_FALSE(huge.At(UINT64_MAX - 1).over);
}

}  // namespace
}  // namespace rocattach
