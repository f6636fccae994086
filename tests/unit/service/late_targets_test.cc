#include "userspace/service/late_targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rocattach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using Changes = LateTargets::Changes;
using Next = LateTargets::Next;

// A process as the functions under test see it.
struct Fake {
  RuntimeStart start = RuntimeStart::kNotStarted;
  uint64_t ticks = 7;
};

class LateTargetsTest : public testing::Test {
 protected:
  static constexpr ProcessId kOne = {1, 7}, kTwo = {2, 7}, kThree = {3, 7},
                             kFour = {4, 7};

  void Make(uint64_t timeout_msec = 0, bool waits = true) {
    targets_.emplace(
        LateTargets::Functions{
            .has_window = [this](const ProcessId& p) { return windows_.contains(p); },
            .read_start = [this](const ProcessId& p) -> absl::StatusOr<RuntimeStart> {
              auto found = processes_.find(p.pid);
              if (found == processes_.end()) return absl::NotFoundError("gone");
              return found->second.start;
            },
            .lives =
                [this](const ProcessId& p) {
                  auto found = processes_.find(p.pid);
                  return found != processes_.end() &&
                         found->second.ticks == p.start_ticks;
                },
            .now_msec = [this] { return now_; }},
        waits, timeout_msec);
  }
  void ExpectNothing() {
    const Changes changes = targets_->Poll();
    EXPECT_THAT(changes.to_enter, IsEmpty());
    EXPECT_THAT(changes.given_up, IsEmpty());
  }
  Next FindNoSafePoint(const ProcessId& process, const char* why = "busy") {
    return targets_->OnUnentered(process, absl::AbortedError(why));
  }

  std::map<pid_t, Fake> processes_ = {{1, {}}, {2, {RuntimeStart::kNotLoaded}}};
  std::set<ProcessId> windows_;
  uint64_t now_ = 1000;
  std::optional<LateTargets> targets_;
};

using AwaitedStartsTest = LateTargetsTest;

TEST_F(AwaitedStartsTest, WaitsAsLongAsNothingHappens) {
  Make();
  EXPECT_FALSE(targets_->waits());
  targets_->AwaitStart(kOne);
  targets_->AwaitStart(kTwo);
  now_ += 1'000'000'000;
  ExpectNothing();
  EXPECT_TRUE(targets_->waits());
  EXPECT_TRUE(targets_->settled()) << "no verdict is on the way";
}

// The loader maps a library's code before the rest of the library can be read.
TEST_F(AwaitedStartsTest, ARuntimeThatIsBeingLoadedHasNotStarted) {
  Make();
  targets_->AwaitStart(kOne);
  processes_[1].start = RuntimeStart::kUnknown;
  ExpectNothing();
  now_ += 900;
  ExpectNothing();
  processes_[1].start = RuntimeStart::kNotStarted;
  ExpectNothing();
  // In the end, a runtime whose code is not understood counts as started.
  processes_[1].start = RuntimeStart::kUnknown;
  now_ += 900;
  ExpectNothing();
  now_ += 1000;
  EXPECT_THAT(targets_->Poll().to_enter, ElementsAre(kOne));
}

TEST_F(AwaitedStartsTest, AWindowEndsTheWait) {
  Make(10);
  targets_->AwaitStart(kOne);
  targets_->AwaitStart(kTwo);
  windows_.insert(kOne);
  // Its runtime may be open by now.
  processes_[1].start = RuntimeStart::kStarted;
  targets_->OnWindow(kTwo);
  now_ += 100;
  ExpectNothing();
  EXPECT_FALSE(targets_->waits());
}

// Its ID was that of the awaited one, whose end has not been noticed yet.
TEST_F(AwaitedStartsTest, TheWindowOfALaterProcessWithTheIdDoesNotEndTheWait) {
  Make();
  targets_->AwaitStart(kOne);
  targets_->OnWindow({1, 8});
  targets_->OnVerdict({1, 8}, /*retried=*/false);
  EXPECT_TRUE(targets_->waits());
}

// The runtime may be a library copy that has no probe yet.
TEST_F(AwaitedStartsTest, ALoadedRuntimeIsReportedOnce) {
  Make();
  targets_->AwaitStart(kOne);
  targets_->AwaitStart(kTwo);
  EXPECT_THAT(targets_->Poll().loaded, ElementsAre(kOne));
  EXPECT_THAT(targets_->Poll().loaded, IsEmpty());
  processes_[2].start = RuntimeStart::kNotStarted;
  EXPECT_THAT(targets_->Poll().loaded, ElementsAre(kTwo));
  EXPECT_TRUE(targets_->waits());
  processes_[2].start = RuntimeStart::kStarted;
  const Changes changes = targets_->Poll();
  EXPECT_THAT(changes.loaded, IsEmpty());
  EXPECT_THAT(changes.to_enter, ElementsAre(kTwo));
}

TEST_F(AwaitedStartsTest, AStartWithoutAWindowIsReported) {
  Make();
  targets_->AwaitStart(kOne);
  processes_[1].start = RuntimeStart::kStarted;
  EXPECT_THAT(targets_->Poll().to_enter, ElementsAre(kOne));
  EXPECT_FALSE(targets_->waits());
  EXPECT_FALSE(targets_->settled()) << "its verdict is awaited now";
  EXPECT_THAT(targets_->Poll().to_enter, IsEmpty()) << "once";
}

TEST_F(AwaitedStartsTest, TheEndIsReportedOnceNoWindowCanCome) {
  Make();
  targets_->AwaitStart(kOne);
  targets_->AwaitStart(kTwo);
  processes_.erase(1);
  processes_[2].ticks = 8;  // another process with this number
  ExpectNothing();
  const Changes changes = targets_->Poll();
  EXPECT_THAT(changes.to_enter, IsEmpty());
  EXPECT_THAT(changes.given_up, ElementsAre(Key(kOne), Key(kTwo)));
  EXPECT_TRUE(absl::IsNotFound(changes.given_up.at(kOne)));
  EXPECT_FALSE(targets_->waits());
  // A process that opened its window and ended at once.
  processes_[1] = {};
  targets_->AwaitStart(kOne);
  processes_.erase(1);
  ExpectNothing();
  targets_->OnWindow(kOne);
  ExpectNothing();
}

TEST_F(AwaitedStartsTest, TheTimeoutCountsForEach) {
  Make(500);
  targets_->AwaitStart(kOne);
  now_ += 400;
  targets_->AwaitStart(kTwo);
  now_ += 100;
  const Changes changes = targets_->Poll();
  EXPECT_THAT(changes.given_up, ElementsAre(Key(kOne)));
  EXPECT_THAT(std::string(changes.given_up.at(kOne).message()),
              HasSubstr("within 500 ms"));
  EXPECT_TRUE(targets_->waits());
}

using AwaitedSafePointsTest = LateTargetsTest;

TEST_F(AwaitedSafePointsTest, IsTriedAgainAfterAPauseThatGrows) {
  Make();
  EXPECT_FALSE(targets_->waits());
  EXPECT_EQ(FindNoSafePoint(kOne), Next::kAwaited);
  EXPECT_TRUE(targets_->waits());
  EXPECT_THAT(targets_->Poll().to_enter, IsEmpty());
  for (uint64_t pause : {100, 200, 400, 800, 1000, 1000}) {
    now_ += pause - 1;
    EXPECT_THAT(targets_->Poll().to_enter, IsEmpty()) << pause;
    now_ += 1;
    EXPECT_THAT(targets_->Poll().to_enter, ElementsAre(kOne)) << pause;
    now_ += 1'000'000;
    EXPECT_THAT(targets_->Poll().to_enter, IsEmpty()) << "it is being tried";
    EXPECT_TRUE(targets_->waits());
    EXPECT_EQ(FindNoSafePoint(kOne), Next::kStillAwaited);
  }
  targets_->OnVerdict(kOne, /*retried=*/false);
  EXPECT_FALSE(targets_->waits());
  EXPECT_EQ(FindNoSafePoint(kOne), Next::kAwaited);
}

TEST_F(AwaitedSafePointsTest, AFailureOfAnotherKindEndsIt) {
  Make();
  EXPECT_EQ(FindNoSafePoint(kOne), Next::kAwaited);
  EXPECT_EQ(targets_->OnUnentered(kOne, absl::NotFoundError("no runtime")),
            Next::kForgotten);
  EXPECT_FALSE(targets_->waits());
}

TEST_F(AwaitedSafePointsTest, WithoutAWaitOrAProcessThereIsNoFurtherAttempt) {
  Make(/*timeout_msec=*/0, /*waits=*/false);
  EXPECT_EQ(FindNoSafePoint(kOne), Next::kForgotten);
  Make();
  EXPECT_EQ(FindNoSafePoint({1, 6}), Next::kForgotten) << "it has ended";
  EXPECT_FALSE(targets_->waits());
}

TEST_F(AwaitedSafePointsTest, TheTimeoutCountsFromTheFirstAttempt) {
  Make(500);
  FindNoSafePoint(kOne);
  now_ += 400;
  FindNoSafePoint(kTwo, "blocked");
  EXPECT_THAT(targets_->Poll().to_enter, ElementsAre(kOne));
  FindNoSafePoint(kOne, "still busy");
  now_ += 100;
  const Changes changes = targets_->Poll();
  EXPECT_THAT(changes.to_enter, ElementsAre(kTwo));
  ASSERT_THAT(changes.given_up, ElementsAre(Key(kOne)));
  EXPECT_TRUE(absl::IsDeadlineExceeded(changes.given_up.at(kOne)));
  EXPECT_THAT(std::string(changes.given_up.at(kOne).message()),
              HasSubstr("within 500 ms: still busy"));
}

TEST_F(AwaitedSafePointsTest, TheEndOfTheProcessEndsIt) {
  Make();
  FindNoSafePoint(kOne);
  FindNoSafePoint(kTwo);
  processes_.erase(1);
  processes_[2].ticks = 8;  // another process with this number
  const Changes changes = targets_->Poll();
  EXPECT_THAT(changes.given_up, ElementsAre(Key(kOne), Key(kTwo)));
  EXPECT_TRUE(absl::IsNotFound(changes.given_up.at(kOne)));
  EXPECT_FALSE(targets_->waits());
  // The number of a process that has ended is in use again.
  processes_[1] = {};
  FindNoSafePoint(kOne);
  processes_[1].ticks = 9;
  EXPECT_EQ(FindNoSafePoint({1, 9}), Next::kAwaited);
}

using EnteringTest = LateTargetsTest;

TEST_F(EnteringTest, IsSettledOnceEachHasItsVerdict) {
  Make();
  EXPECT_TRUE(targets_->settled());
  targets_->Enter({kOne, kTwo});
  EXPECT_FALSE(targets_->settled());
  targets_->OnVerdict(kOne, /*retried=*/false);
  targets_->OnVerdict({7, 7}, /*retried=*/false);  // a child
  now_ += 1'000'000;
  EXPECT_FALSE(targets_->settled());
  targets_->Remove(kTwo);
  EXPECT_TRUE(targets_->settled());
}

TEST_F(EnteringTest, AVerdictOfALaterProcessWithTheIdSettlesNothing) {
  Make();
  targets_->Enter({kOne});
  targets_->OnVerdict({1, 8}, /*retried=*/false);
  EXPECT_FALSE(targets_->settled());
}

TEST_F(EnteringTest, ARetryMayBringAnotherVerdict) {
  Make();
  targets_->Enter({kOne});
  targets_->OnVerdict(kOne, /*retried=*/true);
  EXPECT_FALSE(targets_->settled());
  targets_->OnVerdict(kOne, /*retried=*/true);
  EXPECT_TRUE(targets_->settled()) << "there is only one";
  targets_->Enter({kOne});
  targets_->OnVerdict(kOne, /*retried=*/true);
  now_ += 2999;
  EXPECT_FALSE(targets_->settled());
  now_ += 1;
  EXPECT_TRUE(targets_->settled()) << "it brought none";
}

TEST_F(EnteringTest, EachIsRetriedOnce) {
  Make();
  EXPECT_TRUE(targets_->Retry(kOne));
  EXPECT_FALSE(targets_->Retry(kOne));
  EXPECT_TRUE(targets_->Retry({1, 8})) << "a later process with its ID";
}

TEST_F(EnteringTest, GivesUpOnThoseThatHaveNoVerdictInTime) {
  Make();
  targets_->Enter({kOne, kTwo});
  now_ += 500;
  targets_->Enter({kThree});
  now_ += 499;
  EXPECT_THAT(targets_->TakeOverdue(1000), IsEmpty());
  now_ += 1;
  EXPECT_THAT(targets_->TakeOverdue(1000), ElementsAre(kOne, kTwo));
  EXPECT_THAT(targets_->TakeOverdue(1000), IsEmpty()) << "once";
  EXPECT_FALSE(targets_->settled());
  now_ += 500;
  EXPECT_THAT(targets_->TakeOverdue(1000), ElementsAre(kThree));
  EXPECT_TRUE(targets_->settled());
}

TEST_F(EnteringTest, WaitsWhileOthersHaveTheirTurns) {
  Make();
  targets_->Enter({kOne, kTwo, kThree, kFour});
  now_ += 900;
  targets_->OnVerdict(kOne, /*retried=*/false);
  now_ += 900;
  EXPECT_THAT(targets_->TakeOverdue(1000), IsEmpty());
  targets_->Remove(kTwo);
  now_ += 900;
  targets_->OnVerdict(kThree, /*retried=*/true);
  targets_->OnVerdict({7, 7}, /*retried=*/false);  // was not requested
  now_ += 1000;
  EXPECT_THAT(targets_->TakeOverdue(1000), ElementsAre(kFour)) << "3 has a verdict";
}

}  // namespace
}  // namespace rocattach
