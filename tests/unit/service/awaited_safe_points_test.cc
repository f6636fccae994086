#include "userspace/service/awaited_safe_points.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace rocattach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;

class AwaitedSafePointsTest : public testing::Test {
 protected:
  AwaitedSafePoints Make(uint64_t timeout_msec) {
    return AwaitedSafePoints(
        {.read_start_ticks = [this](pid_t pid) -> absl::StatusOr<uint64_t> {
           auto found = ticks_.find(pid);
           if (found == ticks_.end()) return absl::NotFoundError("gone");
           return found->second;
         },
         .now = [this] { return now_; }},
        timeout_msec);
  }

  std::map<pid_t, uint64_t> ticks_ = {{1, 7}, {2, 7}};
  uint64_t now_ = 0;
};

TEST_F(AwaitedSafePointsTest, IsTriedAgainAfterAPauseThatGrows) {
  AwaitedSafePoints awaited = Make(0);
  EXPECT_TRUE(awaited.empty());
  EXPECT_TRUE(awaited.Add({1, 7}, "busy"));
  EXPECT_FALSE(awaited.empty());
  EXPECT_THAT(awaited.Poll().due, IsEmpty());
  for (uint64_t pause : {100, 200, 400, 800, 1000, 1000}) {
    now_ += pause - 1;
    EXPECT_THAT(awaited.Poll().due, IsEmpty()) << pause;
    now_ += 1;
    EXPECT_THAT(awaited.Poll().due, ElementsAre(1)) << pause;
    now_ += 1'000'000;
    EXPECT_THAT(awaited.Poll().due, IsEmpty()) << "it is being tried";
    EXPECT_FALSE(awaited.Add({1, 7}, "busy"));
  }
  awaited.Remove(1);
  EXPECT_TRUE(awaited.empty());
  EXPECT_TRUE(awaited.Add({1, 7}, "busy"));
}

TEST_F(AwaitedSafePointsTest, TheTimeoutCountsFromTheFirstAttempt) {
  AwaitedSafePoints awaited = Make(500);
  awaited.Add({1, 7}, "busy");
  now_ += 400;
  awaited.Add({2, 7}, "blocked");
  EXPECT_THAT(awaited.Poll().due, ElementsAre(1));
  awaited.Add({1, 7}, "still busy");
  now_ += 100;
  const AwaitedSafePoints::Changes changes = awaited.Poll();
  EXPECT_THAT(changes.due, ElementsAre(2));
  ASSERT_THAT(changes.given_up, ElementsAre(Key(1)));
  EXPECT_TRUE(absl::IsDeadlineExceeded(changes.given_up.at(1)));
  EXPECT_THAT(std::string(changes.given_up.at(1).message()),
              HasSubstr("within 500 ms: still busy"));
}

TEST_F(AwaitedSafePointsTest, TheEndOfTheProcessEndsIt) {
  AwaitedSafePoints awaited = Make(0);
  awaited.Add({1, 7}, "busy");
  awaited.Add({2, 7}, "busy");
  ticks_.erase(1);
  ticks_[2] = 8;  // another process with this number
  const AwaitedSafePoints::Changes changes = awaited.Poll();
  EXPECT_THAT(changes.given_up, ElementsAre(Key(1), Key(2)));
  EXPECT_TRUE(absl::IsNotFound(changes.given_up.at(1)));
  EXPECT_TRUE(awaited.empty());
  // The number of a process that has ended is in use again.
  awaited.Add({1, 7}, "busy");
  EXPECT_TRUE(awaited.Add({1, 9}, "busy"));
}

}  // namespace
}  // namespace rocattach
