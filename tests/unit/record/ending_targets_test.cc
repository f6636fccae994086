#include "userspace/record/ending_targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/unit/record/target_fixture.h"

namespace rocattach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr uint32_t kOtherUser = 1001;
constexpr uint64_t kEndNs = 9'000'000'000;

class EndingTargetsTest : public TargetTest {
 protected:
  // The exit code also identifies the target in `closed_`.
  void Add(std::unique_ptr<Target> target, uint32_t exit_code) {
    v1::ProcessEnd end;
    end.set_exit_code(exit_code);
    ending_.Add(std::move(target), end, close_);
  }
  void Add(uint32_t number, uint32_t uid = kUser) {
    Add(NewTarget(Attached(number, uid)), number);
  }
  // A target whose dictionary alone costs more than the least share.
  std::unique_ptr<Target> Busy(FakeCollector* fake, uint32_t number, uint32_t uid) {
    for (uint32_t id = 1; id <= 40; ++id) fake->AddKernel(id, "kernel");
    for (uint64_t id = 1; id <= 8; ++id) {
      const rocattach_dispatch record = FakeCollector::Dispatch(id);
      fake->Publish(0, &record);
    }
    std::unique_ptr<Target> target = NewTarget(Attached(number, uid));
    Report(*fake, target.get());
    return target;
  }

  EndingTargets ending_;
  // Process numbers and exit codes of the closed targets, in order.
  std::vector<std::pair<uint32_t, uint32_t>> closed_;
  const std::function<void(Target*, const v1::ProcessEnd&)> close_ =
      [this](Target* target, const v1::ProcessEnd& end) {
        closed_.emplace_back(target->opened().event.pid - 5'000'000, end.exit_code());
      };
};

TEST_F(EndingTargetsTest, ADrainedTargetIsClosedWithItsOwnEnd) {
  EXPECT_TRUE(ending_.empty());
  Add(1);
  Add(2);
  EXPECT_FALSE(ending_.empty());
  EXPECT_THAT(closed_, IsEmpty());
  ending_.Drain(kEndNs, DrainShares(), close_);
  EXPECT_THAT(closed_, ElementsAre(Pair(1, 1), Pair(2, 2)));
  EXPECT_TRUE(ending_.empty());
}

// A process that has left many records waits for the next round and delays no other.
TEST_F(EndingTargetsTest, RoundDrainsAtMostTheShareOfEachProcess) {
  FakeCollector fake;
  Add(Busy(&fake, 1, kUser), 1);
  Target* busy = ending_.Find(ProcessId::StartedAt(5'000'001, kStartNs));
  ASSERT_NE(busy, nullptr);
  Add(2);
  DrainShares shares;
  for (int i = 0; i < 1000; ++i) shares.Add(kUser);
  ASSERT_EQ(shares.Of(kUser), DrainShares::kLeastShare);
  ending_.Drain(kEndNs, shares, close_);
  EXPECT_THAT(closed_, ElementsAre(Pair(2, 2)));
  EXPECT_EQ(busy->counts().dispatches, 0u);
  for (int rounds = 0; rounds < 5 && !ending_.empty(); ++rounds) {
    ending_.Drain(kEndNs, shares, [&](Target* target, const v1::ProcessEnd& end) {
      EXPECT_EQ(target->counts().dispatches, 8u);
      close_(target, end);
    });
  }
  EXPECT_THAT(closed_, ElementsAre(Pair(2, 2), Pair(1, 1)));
  EXPECT_TRUE(ending_.empty());
}

TEST_F(EndingTargetsTest, TheShareIsThatOfTheTargetsOwnUser) {
  FakeCollector crowded, alone;
  Add(Busy(&crowded, 1, kUser), 1);
  Add(Busy(&alone, 2, kOtherUser), 2);
  DrainShares shares;
  for (int i = 0; i < 1000; ++i) shares.Add(kUser);
  ending_.Drain(kEndNs, shares, close_);
  EXPECT_THAT(closed_, ElementsAre(Pair(2, 2)));
}

TEST_F(EndingTargetsTest, BeyondTheLimitTheUsersOldestTargetIsClosed) {
  Add(1000, kOtherUser);
  for (uint32_t number = 0; number < EndingTargets::kMaxPerUser; ++number) Add(number);
  EXPECT_THAT(closed_, IsEmpty());
  Add(500);
  EXPECT_THAT(closed_, ElementsAre(Pair(0, 0)));
  Add(501);
  EXPECT_THAT(closed_, ElementsAre(Pair(0, 0), Pair(1, 1)));
  // The others are still there.
  closed_.clear();
  ending_.CloseAll(close_);
  EXPECT_EQ(closed_.size(), EndingTargets::kMaxPerUser + 1);
  EXPECT_THAT(closed_[0], Pair(1000, 1000));
}

TEST_F(EndingTargetsTest, CloseAllClosesTargetsThatAreNotDrained) {
  FakeCollector fake;
  Add(Busy(&fake, 1, kUser), 1);
  Add(2);
  ending_.CloseAll(close_);
  EXPECT_THAT(closed_, ElementsAre(Pair(1, 1), Pair(2, 2)));
  EXPECT_TRUE(ending_.empty());
}

TEST_F(EndingTargetsTest, FindsOnlyThoseWithACollector) {
  FakeCollector fake;
  Add(1);
  Add(Busy(&fake, 2, kUser), 2);
  EXPECT_EQ(ending_.Find(ProcessId::StartedAt(5'000'001, kStartNs)), nullptr);
  Target* found = ending_.Find(ProcessId::StartedAt(5'000'002, kStartNs));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->opened().event.pid, 5'000'002u);
  // A later process with the same number.
  EXPECT_EQ(ending_.Find(ProcessId::StartedAt(5'000'002, 2 * kStartNs)), nullptr);
}

TEST_F(EndingTargetsTest, EachTargetCountsAmongItsUsersShares) {
  Add(1);
  Add(2);
  Add(3, kOtherUser);
  DrainShares shares;
  ending_.AddTo(&shares);
  EXPECT_EQ(shares.Of(kUser), DrainShares::kRoundCost / 2 / 2);
  EXPECT_EQ(shares.Of(kOtherUser), DrainShares::kRoundCost / 2);
}

TEST_F(EndingTargetsTest, TotalsIncludeRecordsDrainedSoFar) {
  FakeCollector first, second;
  Add(Busy(&first, 1, kUser), 1);
  Add(Busy(&second, 2, kUser), 2);
  EXPECT_EQ(ending_.Publish().dispatches, 0u);
  Target* target = ending_.Find(ProcessId::StartedAt(5'000'001, kStartNs));
  ASSERT_NE(target, nullptr);
  target->Drain(kEndNs);
  EXPECT_EQ(target->published.dispatches, 0u);
  EXPECT_EQ(ending_.Publish().dispatches, 8u);
  EXPECT_EQ(target->published.dispatches, 8u);
  ending_.Find(ProcessId::StartedAt(5'000'002, kStartNs))->Drain(kEndNs);
  EXPECT_EQ(ending_.Publish().dispatches, 16u);
}

}  // namespace
}  // namespace rocattach
