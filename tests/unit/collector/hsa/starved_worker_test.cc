#include <gtest/gtest.h>

#include "tests/unit/collector/hsa/doorbell_fixture.h"

namespace rocattach::collector {
namespace {

// Interleavings in which the worker, while it has no CPU, would take the times of the
// packet that uses the signal next.
class StarvedWorkerTest : public DoorbellTest {
 protected:
  // A dispatch with the application's signal is captured and ends; the application has
  // waited for it.
  void CaptureOne() {
    Launch(&signal_);
    gpu_.Run();
    end_ns_ = gpu_.now() + 1'000'000'000;
    Launch();  // in flight until the worker has run
    signal_.value = 1;
  }
  bool Watches() { return f_.tracker.app_signals().tracked() != 0; }
  // Rings as the hook does while nothing is recorded.
  void RingOff(uint64_t index) {
    if (Watches()) {
      f_.doorbell.Watch(&gpu_.queue(), static_cast<int64_t>(index), &ring_);
    } else {
      f_.doorbell.RingIdle(&gpu_.queue(), static_cast<int64_t>(index),
                           f_.hsa.signal_store_screlease);
    }
  }
  uint64_t LaunchOff(amd_signal_t* completion) {
    const uint64_t index = gpu_.Reserve();
    gpu_.Write(index, kKernel, completion);
    RingOff(index);
    return index;
  }
  // The worker finally runs. Returns the first record.
  rocattach_dispatch First() {
    f_.Harvest(&gpu_.queue());
    const auto records = AllDispatches(f_.memory);
    EXPECT_FALSE(records.empty());
    return records.empty() ? rocattach_dispatch{} : records[0];
  }
  // The signal gets the times of the packet that uses it next.
  void ReuseSignal() {
    signal_.start_ts = gpu_.now() + 1;
    signal_.end_ts = gpu_.now() + 2;
  }
  void ExpectOwnTimes() {
    const rocattach_dispatch first = First();
    EXPECT_EQ(first.packet_index, 0u);
    EXPECT_EQ(first.flags & ROCATTACH_DISPATCH_UNTIMED, 0);
    EXPECT_EQ(first.end_ns, end_ns_);
  }
  amd_signal_t signal_ = {};
  uint64_t end_ns_ = 0;
};

TEST_F(StarvedWorkerTest, TheNextDispatchAfterTheEndOfRecording) {
  CaptureOne();
  LaunchOff(&signal_);
  gpu_.Run();
  ExpectOwnTimes();
  EXPECT_EQ(f_.Sum(&rocattach_ring::dispatches_seen), 2u);
}

TEST_F(StarvedWorkerTest, ABarrierAfterTheEndOfRecording) {
  CaptureOne();
  const uint64_t index = gpu_.Reserve();
  gpu_.WriteBarrier(index, &signal_);
  RingOff(index);
  gpu_.Run();
  ReuseSignal();
  ExpectOwnTimes();
}

TEST_F(StarvedWorkerTest, ABatchOfWhichOnlyTheLastIsRungFor) {
  CaptureOne();
  gpu_.Write(gpu_.Reserve(), kKernel, &signal_);
  LaunchOff(nullptr);
  gpu_.Run();
  ExpectOwnTimes();
  EXPECT_EQ(f_.Sum(&rocattach_ring::dispatches_seen), 2u);
}

TEST_F(StarvedWorkerTest, AQueueThatWasIdle) {
  FakeGpu other(16);
  const auto launch = [&](amd_signal_t* signal) {
    const uint64_t index = other.Reserve();
    other.Write(index, kKernel, signal);
    return index;
  };
  f_.doorbell.RingIdle(&other.queue(), static_cast<int64_t>(launch(nullptr)),
                       f_.hsa.signal_store_screlease);
  other.Run();
  CaptureOne();
  launch(&signal_);
  f_.doorbell.Watch(&other.queue(), static_cast<int64_t>(launch(nullptr)), &ring_);
  other.Run();
  ReuseSignal();
  ExpectOwnTimes();
}

TEST_F(StarvedWorkerTest, ADispatchForWhichTheTableHasNoRoom) {
  CaptureOne();
  while (f_.tracker.Take(&gpu_.queue().ops) != kNoOp) {
  }
  gpu_.queue().lock.Lock();
  ASSERT_EQ(f_.Inflight(), 2);
  const uint64_t index = gpu_.Reserve();
  gpu_.Write(index, kKernel, &signal_);
  // The signal shows no end, as it does until the application waits for it.
  const uint64_t start = signal_.start_ts, end = signal_.end_ts;
  signal_.start_ts = signal_.end_ts = 0;
  f_.capture.Dispatch(&gpu_.queue(), &gpu_.packet(index), index, 1, 1, &ring_);
  gpu_.queue().lock.Unlock();
  signal_.start_ts = start + 1'000'000;
  signal_.end_ts = end + 1'000'000;
  f_.Harvest(&gpu_.queue());
  for (const rocattach_dispatch& record : AllDispatches(f_.memory)) {
    EXPECT_NE(record.flags & ROCATTACH_DISPATCH_UNTIMED, 0) << record.packet_index;
  }
}

TEST_F(StarvedWorkerTest, AnUnrungPacketLeavesNoTimes) {
  CaptureOne();
  const uint64_t index = gpu_.Reserve();
  gpu_.Write(index, kKernel, &signal_);
  gpu_.RunUnrung();
  ASSERT_TRUE(gpu_.queue().lock.TryLock());
  EXPECT_TRUE(f_.doorbell.CatchUp(&gpu_.queue(), &ring_));
  f_.doorbell.Leave(&gpu_.queue(), &ring_);
  f_.Harvest(&gpu_.queue());
  for (const rocattach_dispatch& record : AllDispatches(f_.memory)) {
    if (record.packet_index == 1) continue;
    EXPECT_NE(record.flags & ROCATTACH_DISPATCH_UNTIMED, 0) << record.packet_index;
  }
}

TEST_F(StarvedWorkerTest, AtExitPacketsPassUnseen) {
  Launch(&signal_);
  f_.tracker.app_signals().StopReading();
  gpu_.Run();
  signal_.value = 1;
  signal_.start_ts += 1'000'000;
  signal_.end_ts += 1'000'000;
  f_.Harvest(&gpu_.queue());
  EXPECT_TRUE(AllDispatches(f_.memory).empty());
  EXPECT_EQ(f_.Inflight(), 1);
}

TEST_F(StarvedWorkerTest, OnceNothingIsTrackedPacketsAreNotLookedAt) {
  CaptureOne();
  LaunchOff(&signal_);
  EXPECT_FALSE(Watches());
  LaunchOff(&signal_);
  EXPECT_EQ(gpu_.queue().idled, 1u);
  gpu_.Run();
  EXPECT_EQ(Launch(), 4u);
  gpu_.Run();
  ExpectOwnTimes();
  EXPECT_EQ(f_.Sum(&rocattach_ring::dispatches_seen), 3u);
}

}  // namespace
}  // namespace rocattach::collector
