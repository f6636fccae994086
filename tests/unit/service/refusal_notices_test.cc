#include "userspace/service/refusal_notices.h"

#include <gtest/gtest.h>

namespace rocattach {
namespace {

constexpr ProcessId kTarget = {100, 7};

TEST(RefusalNotices, EachPeriodGoesToTheStreamAndEachReasonToPeople) {
  RefusalNotices notices;
  RefusalNotices::Due due = notices.Add(1, kTarget, "no counter", 0);
  EXPECT_TRUE(due.stream);
  EXPECT_TRUE(due.people);
  due = notices.Add(1, kTarget, "no counter", 0);
  EXPECT_FALSE(due.stream);
  EXPECT_FALSE(due.people);
  due = notices.Add(1, kTarget, "no counter", 1);
  EXPECT_TRUE(due.stream);
  EXPECT_FALSE(due.people);
  due = notices.Add(1, kTarget, "another tool counts", 1);
  EXPECT_TRUE(due.stream);
  EXPECT_TRUE(due.people);
}

TEST(RefusalNotices, ForgetsASessionAndKeepsTheOthers) {
  RefusalNotices notices;
  notices.Add(1, kTarget, "no counter", 0);
  notices.Add(2, kTarget, "no counter", 0);
  notices.Forget(1);
  EXPECT_TRUE(notices.Add(1, kTarget, "no counter", 0).people);
  EXPECT_FALSE(notices.Add(2, kTarget, "no counter", 0).stream);
}

TEST(RefusalNotices, KeepsOnlyTheProcessesThatLive) {
  RefusalNotices notices;
  notices.Add(1, kTarget, "no counter", 0);
  notices.Add(1, {100, 8}, "no counter", 0);  // a later process with that number
  notices.Add(2, {101, 7}, "no counter", 0);
  notices.KeepOnly({kTarget});
  EXPECT_EQ(notices.size(), 1u);
  EXPECT_FALSE(notices.Add(1, kTarget, "no counter", 0).stream);
}

}  // namespace
}  // namespace rocattach
