#include "userspace/watch/windows/user_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rocattach {
namespace {

rocattach_event Event(uint32_t uid, uint64_t time_ns) {
  rocattach_event event = {};
  event.type = ROCATTACH_EVENT_WINDOW;
  event.charged_uid = uid;
  event.time_ns = time_ns;
  return event;
}

TEST(UserTurnsTest, TheTurnsOfEachUserAreLimited) {
  UserTurns turns(2);
  EXPECT_TRUE(turns.BeginTurn(Event(1, 10)));
  EXPECT_TRUE(turns.BeginTurn(Event(1, 11)));
  EXPECT_FALSE(turns.BeginTurn(Event(1, 12)));
  EXPECT_TRUE(turns.BeginTurn(Event(2, 13))) << "another user";
  EXPECT_TRUE(turns.HasWaiting());
  const auto next = turns.Pass(Event(1, 10));
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->time_ns, 12u);
  EXPECT_FALSE(turns.HasWaiting());
  EXPECT_FALSE(turns.BeginTurn(Event(1, 14))) << "both turns are taken again";
  EXPECT_EQ(turns.Pass(Event(1, 11))->time_ns, 14u);
  EXPECT_FALSE(turns.Pass(Event(1, 12)).has_value());
  EXPECT_TRUE(turns.BeginTurn(Event(1, 15)));
}

TEST(UserTurnsTest, RemovesWindowsThatHaveWaitedTooLong) {
  UserTurns turns(1);
  EXPECT_TRUE(turns.BeginTurn(Event(1, 10)));
  EXPECT_FALSE(turns.BeginTurn(Event(1, 20)));
  EXPECT_FALSE(turns.BeginTurn(Event(1, 30)));
  EXPECT_TRUE(turns.TakeOlderWindows(20).empty());
  const auto older = turns.TakeOlderWindows(21);
  ASSERT_EQ(older.size(), 1u);
  EXPECT_EQ(older[0].time_ns, 20u);
  EXPECT_EQ(turns.Pass(Event(1, 10))->time_ns, 30u);
}

TEST(UserTurnsTest, AReportIsNeverTooLate) {
  UserTurns turns(1);
  rocattach_event ready = Event(1, 20);
  ready.type = ROCATTACH_EVENT_READY;
  EXPECT_TRUE(turns.BeginTurn(Event(1, 10)));
  EXPECT_FALSE(turns.BeginTurn(ready));
  EXPECT_FALSE(turns.BeginTurn(Event(1, 21)));
  EXPECT_EQ(turns.TakeOlderWindows(100).size(), 1u);
  EXPECT_EQ(turns.Pass(Event(1, 10))->type, ROCATTACH_EVENT_READY);
}

TEST(UserTurnsTest, ATurnIsFreeIfNoEventWaitsForIt) {
  UserTurns turns(1);
  EXPECT_TRUE(turns.BeginTurn(Event(1, 10)));
  EXPECT_FALSE(turns.Pass(Event(1, 10)).has_value());
  EXPECT_FALSE(turns.Pass(Event(7, 10)).has_value()) << "has none";
  EXPECT_TRUE(turns.BeginTurn(Event(1, 20)));
}

}  // namespace
}  // namespace rocattach
