#include "userspace/collector/hsa/app_signals.h"

#include <gtest/gtest.h>

#include "userspace/collector/hsa/backend.h"

namespace rocattach::collector {
namespace {

hsa_amd_profiling_async_copy_time_t g_copy_time;

hsa_status_t FakeCopyTime(hsa_signal_t, hsa_amd_profiling_async_copy_time_t* time) {
  *time = g_copy_time;
  return HSA_STATUS_SUCCESS;
}

class AppSignalsTest : public testing::Test {
 protected:
  void SetUp() override {
    hsa_.get_async_copy_time = FakeCopyTime;
    g_copy_time = {0, 0};
    signals_.Init(ops_, &hsa_);
    for (amd_signal_t& s : raw_) {
      s = {};
      s.kind = AMD_SIGNAL_KIND_USER;
      s.value = 1;
    }
  }
  void TrackDispatch(uint32_t op, amd_signal_t* signal, uint64_t group = 0) {
    ops_[op].copy = false;
    ops_[op].signal = reinterpret_cast<uint64_t>(signal);
    signals_.Track(op, group);
  }
  void TrackCopy(uint32_t op, amd_signal_t* signal) {
    ops_[op].copy = true;
    ops_[op].signal = reinterpret_cast<uint64_t>(signal);
    signals_.Track(op);
  }
  static void Finish(amd_signal_t* signal, uint64_t start, uint64_t end) {
    signal->start_ts = start;
    signal->end_ts = end;
    signal->value = signal->value - 1;
  }
  static void FinishCopy(amd_signal_t* signal, uint64_t start, uint64_t end) {
    g_copy_time = {start, end};
    signal->value = signal->value - 1;
  }
  void ExpectTimes(uint32_t op, uint64_t start, uint64_t end) {
    EXPECT_TRUE(signals_.Poll(op)) << op;
    EXPECT_TRUE(ops_[op].timed) << op;
    EXPECT_EQ(ops_[op].start, start) << op;
    EXPECT_EQ(ops_[op].end, end) << op;
  }
  void ExpectNoTimes(uint32_t op) {
    EXPECT_TRUE(signals_.Poll(op)) << op;
    EXPECT_FALSE(ops_[op].timed) << op;
  }
  HsaFunctions hsa_ = {};
  Op ops_[8] = {};
  amd_signal_t raw_[4];
  AppSignals signals_;
};

TEST_F(AppSignalsTest, SeesNewTimestamps) {
  raw_[0].start_ts = 10;  // left by an earlier use
  raw_[0].end_ts = 20;
  TrackDispatch(0, &raw_[0]);
  EXPECT_EQ(signals_.tracked(), 1u);
  EXPECT_FALSE(signals_.Poll(0));
  raw_[0].start_ts = 30;
  EXPECT_FALSE(signals_.Poll(0));
  Finish(&raw_[0], 30, 40);
  EXPECT_TRUE(signals_.Poll(0));
  EXPECT_TRUE(ops_[0].timed);
  EXPECT_EQ(ops_[0].start, 30u);
  EXPECT_EQ(ops_[0].end, 40u);
  EXPECT_EQ(signals_.tracked(), 0u);
}

TEST_F(AppSignalsTest, TimesAreReadBeforeASignalIsReused) {
  TrackDispatch(0, &raw_[0]);
  Finish(&raw_[0], 30, 40);
  raw_[0].value = 1;  // set again without our knowledge
  TrackDispatch(1, &raw_[0]);
  EXPECT_TRUE(ops_[0].resolved);
  EXPECT_TRUE(ops_[0].timed);
  EXPECT_FALSE(ops_[1].resolved);
  Finish(&raw_[0], 50, 60);
  EXPECT_TRUE(signals_.Poll(1));
  EXPECT_EQ(ops_[1].start, 50u);
}

TEST_F(AppSignalsTest, OneSignalForTwoPacketsInFlightGivesNoTimes) {
  TrackDispatch(0, &raw_[0]);
  TrackDispatch(1, &raw_[0]);
  ExpectNoTimes(0);
  Finish(&raw_[0], 30, 40);
  // It is not known which of the two has ended.
  EXPECT_FALSE(signals_.Poll(1));
  Finish(&raw_[0], 50, 60);
  ExpectNoTimes(1);
  EXPECT_EQ(signals_.tracked(), 0u);
}

TEST_F(AppSignalsTest, AThirdOneDoesNotGetTheTimesOfTheFirst) {
  for (uint32_t i = 0; i < 3; ++i) TrackDispatch(i, &raw_[0]);
  Finish(&raw_[0], 30, 40);
  EXPECT_FALSE(signals_.Poll(2));
  Finish(&raw_[0], 50, 60);
  EXPECT_FALSE(signals_.Poll(2));
  Finish(&raw_[0], 70, 80);
  for (uint32_t i = 0; i < 3; ++i) ExpectNoTimes(i);
  // All have ended: the next operation is the only one with this signal.
  raw_[0].value = 1;
  TrackDispatch(3, &raw_[0]);
  Finish(&raw_[0], 90, 95);
  ExpectTimes(3, 90, 95);
}

// The first operation has ended, the second has not.
TEST_F(AppSignalsTest, AThirdOneDoesNotGetTheTimesOfTheSecond) {
  TrackDispatch(0, &raw_[0]);
  TrackDispatch(1, &raw_[0]);
  Finish(&raw_[0], 30, 40);
  EXPECT_FALSE(signals_.Poll(1));
  TrackDispatch(2, &raw_[0]);
  Finish(&raw_[0], 50, 60);
  EXPECT_FALSE(signals_.Poll(2));
  Finish(&raw_[0], 70, 80);
  for (uint32_t i = 0; i < 3; ++i) ExpectNoTimes(i);
  EXPECT_EQ(signals_.tracked(), 0u);
}

// The signal's value counts the operations left, also those that we do not see.
TEST_F(AppSignalsTest, CountingSignalsGiveTimesToTheLast) {
  raw_[0].value = 4;
  for (uint32_t i = 0; i < 3; ++i) TrackDispatch(i, &raw_[0]);
  for (uint32_t i = 0; i < 3; ++i) {
    Finish(&raw_[0], 30 + i, 40 + i);
    ExpectNoTimes(i);
  }
  TrackDispatch(3, &raw_[0]);
  Finish(&raw_[0], 50, 60);
  ExpectTimes(3, 50, 60);
}

// Each operation ends before the next is submitted.
TEST_F(AppSignalsTest, CountingSignalsGiveTimesToThoseInSequence) {
  raw_[0].value = 3;
  for (uint32_t i = 0; i < 3; ++i) {
    TrackDispatch(i, &raw_[0]);
    Finish(&raw_[0], 30 + 20 * i, 40 + 20 * i);
    if (i == 1) ExpectTimes(i, 50, 60);
  }
  ExpectTimes(0, 30, 40);
  ExpectTimes(2, 70, 80);
}

// According to the value one operation is left, but there are two.
TEST_F(AppSignalsTest, WithMoreOperationsThanCountedNoneGetsTimes) {
  raw_[0].value = 2;
  for (uint32_t i = 0; i < 3; ++i) TrackDispatch(i, &raw_[0]);
  Finish(&raw_[0], 30, 40);
  TrackDispatch(3, &raw_[0]);
  for (uint32_t i = 0; i < 3; ++i) Finish(&raw_[0], 50 + 10 * i, 55 + 10 * i);
  for (uint32_t i = 0; i < 4; ++i) ExpectNoTimes(i);
  EXPECT_EQ(signals_.tracked(), 0u);
}

// The application adds one to the value for each operation.
TEST_F(AppSignalsTest, AnIncrementedSignalEndsAtZero) {
  TrackDispatch(0, &raw_[0]);
  raw_[0].value = 2;
  TrackDispatch(1, &raw_[0]);
  Finish(&raw_[0], 30, 40);
  EXPECT_FALSE(signals_.Poll(1));
  Finish(&raw_[0], 50, 60);
  ExpectNoTimes(0);
  ExpectNoTimes(1);
  EXPECT_EQ(signals_.tracked(), 0u);
}

TEST_F(AppSignalsTest, OperationsOfAnIncrementedSignalGetNoTimes) {
  TrackDispatch(0, &raw_[0]);
  raw_[0].value = 2;
  TrackDispatch(1, &raw_[0]);
  Finish(&raw_[0], 30, 40);
  raw_[0].value = 2;
  TrackDispatch(2, &raw_[0]);
  Finish(&raw_[0], 50, 60);
  EXPECT_FALSE(signals_.Poll(2)) << "this may be the second one's end";
  Finish(&raw_[0], 70, 80);
  signals_.Poll(2);
  raw_[0].value = 1;
  TrackDispatch(3, &raw_[0]);
  Finish(&raw_[0], 90, 95);
  for (uint32_t i = 0; i < 3; ++i) ExpectNoTimes(i);
  ExpectTimes(3, 90, 95);
}

TEST_F(AppSignalsTest, ARearmedSignalGivesItsTimesToTheNext) {
  TrackDispatch(0, &raw_[0]);
  TrackDispatch(1, &raw_[0]);
  Finish(&raw_[0], 30, 40);
  EXPECT_FALSE(signals_.Poll(1));
  Finish(&raw_[0], 50, 60);
  raw_[0].value = 1;  // before the earlier operations are polled
  TrackDispatch(2, &raw_[0]);
  Finish(&raw_[0], 70, 80);
  ExpectNoTimes(0);
  ExpectNoTimes(1);
  ExpectTimes(2, 70, 80);
}

// An operation without times does not deprive the next one of its times.
TEST_F(AppSignalsTest, AnUnprofiledOperationDoesNotAffectTheNext) {
  TrackDispatch(0, &raw_[0]);
  raw_[0].value = 0;
  EXPECT_FALSE(signals_.Poll(0));
  raw_[0].value = 1;
  TrackDispatch(1, &raw_[0]);
  ExpectNoTimes(0);
  Finish(&raw_[0], 30, 40);
  ExpectTimes(1, 30, 40);
}

// A group of two is submitted while another operation is in flight.
TEST_F(AppSignalsTest, NoneOfAGroupGetsTheTimesOfOneBefore) {
  TrackDispatch(0, &raw_[0]);
  TrackDispatch(1, &raw_[0], /*group=*/7);
  TrackDispatch(2, &raw_[0], /*group=*/7);
  Finish(&raw_[0], 30, 40);
  EXPECT_FALSE(signals_.Poll(1));
  EXPECT_FALSE(signals_.Poll(2));
  Finish(&raw_[0], 50, 60);
  for (uint32_t i = 0; i < 3; ++i) ExpectNoTimes(i);
}

TEST_F(AppSignalsTest, AGroupCountsAsOne) {
  TrackDispatch(0, &raw_[0], /*group=*/7);
  TrackDispatch(1, &raw_[0], /*group=*/7);
  Finish(&raw_[0], 30, 40);
  raw_[0].value = 1;
  TrackDispatch(2, &raw_[0]);
  ExpectTimes(0, 30, 40);
  ExpectTimes(1, 30, 40);
  Finish(&raw_[0], 50, 60);
  ExpectTimes(2, 50, 60);
}

// The other operation is a barrier, or a dispatch that is not recorded.
TEST_F(AppSignalsTest, AnUntrackedOperationCountsAsWell) {
  TrackDispatch(0, &raw_[0]);
  signals_.Reused(ops_[0].signal);
  TrackDispatch(1, &raw_[0]);
  ExpectNoTimes(0);
  Finish(&raw_[0], 30, 40);
  EXPECT_FALSE(signals_.Poll(1));
  Finish(&raw_[0], 50, 60);
  EXPECT_FALSE(signals_.Poll(1));
  Finish(&raw_[0], 70, 80);
  ExpectNoTimes(1);
}

// Another tool adds one to the application's signals and subtracts it later.
TEST_F(AppSignalsTest, ValuesChangedByAnotherToolAreNotUsed) {
  g_hsa.queues_are_the_runtimes = false;
  raw_[0].value = 2;
  TrackDispatch(0, &raw_[0]);
  Finish(&raw_[0], 30, 40);
  ExpectTimes(0, 30, 40);
  g_hsa.queues_are_the_runtimes = true;
}

TEST_F(AppSignalsTest, DestroyedSignalsAreNotLookedAtAgain) {
  TrackDispatch(0, &raw_[0]);
  TrackDispatch(1, &raw_[1]);
  Finish(&raw_[0], 30, 40);
  signals_.Destroying(ops_[0].signal);
  signals_.Destroying(ops_[1].signal);
  memset(raw_, 0xee, sizeof(raw_));
  EXPECT_TRUE(signals_.Poll(0));
  EXPECT_TRUE(ops_[0].timed);
  EXPECT_EQ(ops_[0].end, 40u);
  EXPECT_TRUE(signals_.Poll(1));
  EXPECT_FALSE(ops_[1].timed);
}

TEST_F(AppSignalsTest, CopiesEndWithTheValue) {
  TrackCopy(0, &raw_[0]);
  raw_[0].end_ts = 99;
  EXPECT_FALSE(signals_.Poll(0));
  FinishCopy(&raw_[0], 500, 700);
  ExpectTimes(0, 500, 700);
}

TEST_F(AppSignalsTest, ARearmedCopySignalHadEnded) {
  TrackCopy(0, &raw_[0]);
  // It has ended, was waited for and set to 1 again, and is now used for the next copy.
  FinishCopy(&raw_[0], 500, 700);
  raw_[0].value = 1;
  TrackCopy(1, &raw_[0]);
  ExpectTimes(0, 500, 700);
  EXPECT_FALSE(ops_[1].resolved);
  FinishCopy(&raw_[0], 800, 900);
  raw_[0].value = 1;
  TrackCopy(2, &raw_[0]);
  ExpectTimes(1, 800, 900);
}

// The signal still has the times of an earlier copy.
TEST_F(AppSignalsTest, CopiesInFlightWithOneSignalGetNoTimes) {
  g_copy_time = {500, 700};
  raw_[0].value = 3;
  for (uint32_t i = 0; i < 3; ++i) TrackCopy(i, &raw_[0]);
  FinishCopy(&raw_[0], 800, 900);
  EXPECT_FALSE(signals_.Poll(2));
  FinishCopy(&raw_[0], 1000, 1100);
  FinishCopy(&raw_[0], 1200, 1300);
  for (uint32_t i = 0; i < 3; ++i) ExpectNoTimes(i);
}

// Neither the signal's earlier uses nor polls in between make a difference.
TEST_F(AppSignalsTest, ARearmedCopySignalThatADispatchHadBefore) {
  raw_[0].start_ts = 30;
  raw_[0].end_ts = 40;
  TrackCopy(0, &raw_[0]);
  FinishCopy(&raw_[0], 500, 700);
  raw_[0].value = 1;
  TrackDispatch(1, &raw_[0]);
  ExpectTimes(0, 500, 700);
  Finish(&raw_[0], 50, 60);
  ExpectTimes(1, 50, 60);
}

TEST_F(AppSignalsTest, CountingCopySignalsGiveNoTimes) {
  raw_[0].value = 2;
  TrackCopy(0, &raw_[0]);
  TrackCopy(1, &raw_[0]);
  ExpectNoTimes(0);
  FinishCopy(&raw_[0], 500, 700);
  EXPECT_FALSE(signals_.Poll(1));
  FinishCopy(&raw_[0], 800, 900);
  ExpectNoTimes(1);
}

TEST_F(AppSignalsTest, AbandonForgets) {
  TrackDispatch(0, &raw_[0]);
  signals_.Abandon(0);
  EXPECT_EQ(signals_.tracked(), 0u);
  signals_.Abandon(0);
  EXPECT_EQ(signals_.tracked(), 0u);
}

}  // namespace
}  // namespace rocattach::collector
