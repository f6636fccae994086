#include "userspace/watch/late/expected_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace rocattach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ExpectedWindowsTest : public testing::Test {
 protected:
  static constexpr pid_t kPid = 7;

  ExpectedWindows Make() {
    return ExpectedWindows(
        {.has_window = [this](const ProcessId& p) { return windows_.contains(p.pid); },
         .read_start = [this](pid_t pid) -> absl::StatusOr<RuntimeStart> {
           if (ticks_.count(pid) == 0) return absl::NotFoundError("gone");
           return start_;
         },
         .lives =
             [this](const ProcessId& p) {
               return p.start_ticks != 0 && Now(p.pid) == p;
             },
         .now_msec = [this] { return now_; }});
  }
  // The process that has this ID now.
  ProcessId Now(pid_t pid = kPid) const {
    const auto found = ticks_.find(pid);
    return {pid, found == ticks_.end() ? 0 : found->second};
  }
  static uint64_t Sum(const MissedWindows& missed) {
    uint64_t sum = 0;
    for (MissReason reason : kMissReasons) sum += missed[reason];
    return sum;
  }
  static std::vector<ProcessId> Poll(ExpectedWindows* expected) {
    std::vector<ProcessId> late;
    for (const ProcessId& process : expected->Open()) {
      if (expected->Poll(process)) late.push_back(process);
    }
    return late;
  }
  // Polls until everything that can be known is known. Returns the late processes.
  std::vector<ProcessId> Settle(ExpectedWindows* expected) {
    std::vector<ProcessId> late;
    for (int i = 0; i < 5; ++i) {
      for (const ProcessId& process : Poll(expected)) late.push_back(process);
      now_ += 600;
    }
    EXPECT_TRUE(expected->empty());
    return late;
  }

  std::map<pid_t, uint64_t> ticks_ = {{kPid, 100}};
  std::set<pid_t> windows_;
  RuntimeStart start_ = RuntimeStart::kNotStarted;
  uint64_t now_ = 1000;
};

TEST_F(ExpectedWindowsTest, AWindowThatIsSeenIsNotMissed) {
  ExpectedWindows expected = Make();
  expected.Add(Now());
  expected.OnWindow({kPid, 100});
  EXPECT_TRUE(expected.empty());
  EXPECT_EQ(Sum(expected.missed()), 0u);
}

TEST_F(ExpectedWindowsTest, AFileThatIsNotARuntimeHasNoWindow) {
  ExpectedWindows expected = Make();
  const ProcessId process = Now();
  expected.Add(process);
  ticks_.clear();
  expected.Dismiss(process);
  EXPECT_TRUE(expected.empty());
  Settle(&expected);
  EXPECT_EQ(Sum(expected.missed()), 0u);
}

// The record of a mapping may be read after the window was served.
TEST_F(ExpectedWindowsTest, AWindowThatCameFirstCounts) {
  ExpectedWindows expected = Make();
  expected.OnWindow({kPid, 100});
  expected.Add(Now());
  EXPECT_TRUE(expected.empty());
}

TEST_F(ExpectedWindowsTest, AWindowOfAnotherProcessWithTheNumberDoesNotCount) {
  ExpectedWindows expected = Make();
  expected.OnWindow({kPid, 99});
  expected.Add(Now());
  expected.OnWindow({kPid, 101});
  EXPECT_FALSE(expected.empty());
}

TEST_F(ExpectedWindowsTest, ARuntimeThatStartsAfterTheProbeMissesNothing) {
  ExpectedWindows expected = Make();
  const ProcessId process = Now();
  expected.Add(process);
  EXPECT_THAT(Poll(&expected), IsEmpty());
  EXPECT_FALSE(expected.empty()) << "it may start before the probe";
  expected.OnProbed(process);
  EXPECT_THAT(Settle(&expected), IsEmpty());
  EXPECT_EQ(Sum(expected.missed()), 0u);
}

TEST_F(ExpectedWindowsTest, ARuntimeThatWasFasterIsEnteredLateAndCounted) {
  start_ = RuntimeStart::kStarted;
  ExpectedWindows expected = Make();
  const ProcessId process = Now();
  expected.Add(process);
  expected.OnProbed(process);
  EXPECT_THAT(Settle(&expected), ElementsAre(ProcessId{kPid, 100}));
  EXPECT_EQ(expected.missed()[MissReason::kLate], 1u);
  EXPECT_EQ(Sum(expected.missed()), 1u);
}

TEST_F(ExpectedWindowsTest, AStartedRuntimeWithAWindowIsNotLate) {
  start_ = RuntimeStart::kStarted;
  windows_ = {kPid};
  ExpectedWindows expected = Make();
  const ProcessId process = Now();
  expected.Add(process);
  expected.OnProbed(process);
  EXPECT_THAT(Settle(&expected), IsEmpty());
  EXPECT_EQ(Sum(expected.missed()), 0u);
}

// A process that the driver lists, but that has no window, has an unprobed runtime.
TEST_F(ExpectedWindowsTest, AProcessThatOnlyTheDriverKnowsIsCountedOnce) {
  ExpectedWindows expected = Make();
  EXPECT_TRUE(expected.OnDriverUse({kPid, 100}));
  EXPECT_FALSE(expected.OnDriverUse({kPid, 100}));
  EXPECT_EQ(expected.missed()[MissReason::kUnknownCopy], 1u);
  // Another process with the same number.
  EXPECT_TRUE(expected.OnDriverUse({kPid, 101}));
  EXPECT_EQ(Sum(expected.missed()), 2u);
}

TEST_F(ExpectedWindowsTest, DriverUseIsIgnoredIfTheProcessIsAlreadyKnown) {
  ExpectedWindows expected = Make();
  // Its copy has just been mapped.
  const ProcessId process = Now();
  expected.Add(process);
  EXPECT_FALSE(expected.OnDriverUse({kPid, 100}));
  // The process was missed for that reason.
  expected.OnNotProbed(process, MissReason::kTooManyCopies);
  EXPECT_FALSE(expected.OnDriverUse({kPid, 100}));
  EXPECT_EQ(Sum(expected.missed()), 1u);
  // A process that had a window, and has executed another program since.
  expected.OnWindow({8, 200});
  EXPECT_FALSE(expected.OnDriverUse({8, 200}));
  windows_ = {9};
  EXPECT_FALSE(expected.OnDriverUse({9, 300}));
  EXPECT_EQ(Sum(expected.missed()), 1u);
}

// While the runtime is loaded its state is unknown; later it counts as started.
TEST_F(ExpectedWindowsTest, AnUnknownStateIsWaitedFor) {
  start_ = RuntimeStart::kUnknown;
  ExpectedWindows expected = Make();
  const ProcessId process = Now();
  expected.Add(process);
  expected.OnProbed(process);
  EXPECT_THAT(Poll(&expected), IsEmpty());
  now_ += 4900;
  EXPECT_THAT(Poll(&expected), IsEmpty());
  EXPECT_FALSE(expected.empty());
  now_ += 200;
  EXPECT_THAT(Poll(&expected), ElementsAre(ProcessId{kPid, 100}));
}

TEST_F(ExpectedWindowsTest, AProcessThatEndsUnseenIsCounted) {
  for (const bool probed : {false, true}) {
    ticks_ = {{kPid, 100}};
    ExpectedWindows expected = Make();
    const ProcessId process = Now();
    expected.Add(process);
    if (probed) expected.OnProbed(process);
    ticks_.clear();
    EXPECT_THAT(Settle(&expected), IsEmpty());
    EXPECT_EQ(expected.missed()[MissReason::kUncertain], 1u);
  }
}

// Its number may have been reused.
TEST_F(ExpectedWindowsTest, AProcessThatIsReplacedIsCounted) {
  ExpectedWindows expected = Make();
  expected.Add(Now());
  ticks_[kPid] = 200;
  expected.Add(Now());
  for (int i = 0; i < 3; ++i, now_ += 600) EXPECT_THAT(Poll(&expected), IsEmpty());
  EXPECT_EQ(expected.missed()[MissReason::kUncertain], 1u);
  EXPECT_FALSE(expected.empty());
}

// A process that had ended before it could be looked at.
TEST_F(ExpectedWindowsTest, AProcessThatIsGoneAtOnceIsCounted) {
  ticks_.clear();
  ExpectedWindows expected = Make();
  const ProcessId process = Now();
  expected.Add(process);
  expected.OnProbed(process);
  EXPECT_THAT(Settle(&expected), IsEmpty());
  EXPECT_EQ(expected.missed()[MissReason::kUncertain], 1u);
}

// The event of its window may still be on the way.
TEST_F(ExpectedWindowsTest, WindowEventAfterTheProcessEndedPreventsAMiss) {
  ExpectedWindows expected = Make();
  expected.Add(Now());
  ticks_.clear();
  EXPECT_THAT(Poll(&expected), IsEmpty());
  expected.OnWindow({kPid, 100});
  EXPECT_THAT(Settle(&expected), IsEmpty());
  EXPECT_EQ(Sum(expected.missed()), 0u);
}

TEST_F(ExpectedWindowsTest, AProcessThatCannotBeProbedIsCountedByReason) {
  ExpectedWindows expected = Make();
  const ProcessId process = Now();
  expected.Add(process);
  expected.OnNotProbed(process, MissReason::kTooManyCopies);
  expected.OnNotProbed(process, MissReason::kTooManyCopies);
  EXPECT_TRUE(expected.empty());
  EXPECT_EQ(expected.missed()[MissReason::kTooManyCopies], 1u);
}

TEST_F(ExpectedWindowsTest, AProcessThatIsBeingReadIsNotReadAgain) {
  ticks_ = {{7, 100}, {8, 100}};
  ExpectedWindows expected = Make();
  expected.Add(Now(7));
  expected.Add(Now(8));
  EXPECT_THAT(expected.Open(), ElementsAre(Now(7), Now(8)));
  EXPECT_THAT(expected.Open(), IsEmpty());
  EXPECT_FALSE(expected.Poll(Now(7)));
  EXPECT_THAT(expected.Open(), ElementsAre(Now(7)));
  expected.Postpone(Now(8));
  EXPECT_THAT(expected.Open(), ElementsAre(Now(8)));
}

TEST_F(ExpectedWindowsTest, TheEndOfTheServiceSettlesTheRest) {
  ticks_ = {{7, 100}, {8, 100}};
  ExpectedWindows expected = Make();
  expected.Add(Now(7));
  expected.Add(Now(8));
  EXPECT_THAT(Poll(&expected), IsEmpty());
  ticks_.erase(8);
  expected.Finish();
  EXPECT_TRUE(expected.empty());
  EXPECT_EQ(expected.missed()[MissReason::kUncertain], 1u) << "7 has not started";
}

}  // namespace
}  // namespace rocattach
