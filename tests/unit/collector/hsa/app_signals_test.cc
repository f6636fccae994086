#include "userspace/collector/hsa/app_signals.h"

#include <gtest/gtest.h>

namespace rocattach::collector {
namespace {

hsa_status_t FakeCopyTime(hsa_signal_t, hsa_amd_profiling_async_copy_time_t* time) {
  time->start = 500;
  time->end = 700;
  return HSA_STATUS_SUCCESS;
}

class AppSignalsTest : public testing::Test {
 protected:
  void SetUp() override {
    hsa_.get_async_copy_time = FakeCopyTime;
    signals_.Init(ops_, &hsa_);
    for (amd_signal_t& s : raw_) {
      s = {};
      s.kind = AMD_SIGNAL_KIND_USER;
      s.value = 1;
    }
  }
  void TrackDispatch(uint32_t op, amd_signal_t* signal) {
    ops_[op].copy = false;
    ops_[op].signal = reinterpret_cast<uint64_t>(signal);
    signals_.Track(op);
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
  HsaFunctions hsa_ = {};
  Op ops_[8] = {};
  amd_signal_t raw_[4];
  AppSignals signals_;
};

TEST_F(AppSignalsTest, SeesNewTimestamps) {
  raw_[0].start_ts = 10;  // of an earlier use
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

TEST_F(AppSignalsTest, ReuseTakesTheTimesFirst) {
  TrackDispatch(0, &raw_[0]);
  Finish(&raw_[0], 30, 40);
  raw_[0].value = 1;  // re-armed behind our back
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
  EXPECT_TRUE(signals_.Poll(0));
  EXPECT_TRUE(signals_.Poll(1));
  EXPECT_FALSE(ops_[0].timed);
  EXPECT_FALSE(ops_[1].timed);
  EXPECT_EQ(signals_.tracked(), 0u);
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
  raw_[0].value = 0;
  EXPECT_TRUE(signals_.Poll(0));
  EXPECT_TRUE(ops_[0].timed);
  EXPECT_EQ(ops_[0].start, 500u);
  EXPECT_EQ(ops_[0].end, 700u);
}

TEST_F(AppSignalsTest, ARearmedCopySignalHadEnded) {
  TrackCopy(0, &raw_[0]);
  // Ended, waited for, set to 1 again, and now used for the next copy.
  TrackCopy(1, &raw_[0]);
  EXPECT_TRUE(ops_[0].resolved);
  EXPECT_TRUE(ops_[0].timed);
  EXPECT_FALSE(ops_[1].resolved);
}

TEST_F(AppSignalsTest, CountingCopySignalsGiveNoTimes) {
  raw_[0].value = 2;
  TrackCopy(0, &raw_[0]);
  TrackCopy(1, &raw_[0]);
  EXPECT_TRUE(ops_[0].resolved);
  EXPECT_FALSE(ops_[0].timed);
  EXPECT_TRUE(ops_[1].resolved);
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
