// Packets that pass while the collector has stopped by itself, because nothing drains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/collector/hsa/doorbell_fixture.h"

namespace rocattach::collector {
namespace {

class InterruptionTest : public DoorbellTest {
 protected:
  InterruptionTest() {
    process_.memory = f_.memory;
    recording_.Init(&process_);
    f_.doorbell.Init(&f_.capture, &f_.hsa, &recording_);
  }
  void Interrupt(bool interrupted) {
    process_.self_stopped = interrupted ? Process::kFirstStop : 0;
  }
  uint64_t Write() {
    const uint64_t index = gpu_.Reserve();
    gpu_.Write(index, kKernel);
    return index;
  }
  // Rings for packets as the hook does while nothing is recorded.
  void Pass(int packets) {
    for (int i = 0; i < packets; ++i) {
      f_.doorbell.RingIdle(&gpu_.queue(), static_cast<int64_t>(Write()),
                           f_.hsa.signal_store_screlease);
    }
    gpu_.Run();
  }
  std::vector<uint64_t> Recorded() {
    gpu_.Run();
    f_.Harvest(&gpu_.queue());
    std::vector<uint64_t> recorded;
    for (const rocattach_dispatch& dispatch : AllDispatches(f_.memory)) {
      recorded.push_back(dispatch.packet_index);
    }
    return recorded;
  }
  uint64_t Unseen() { return f_.Sum(&rocattach_ring::packets_unseen); }

  Process process_;
  HsaRecording recording_;
};

TEST_F(InterruptionTest, PassedPacketsAreCountedWithTheNextRing) {
  Launch();
  Interrupt(true);
  Pass(3);
  Interrupt(false);
  Launch();
  EXPECT_THAT(Recorded(), testing::ElementsAre(0u, 4u));
  EXPECT_EQ(Unseen(), 3u);
}

TEST_F(InterruptionTest, PassedPacketsAreCountedOnce) {
  Launch();
  Interrupt(true);
  Pass(3);
  for (int i = 0; i < 2; ++i) {
    gpu_.queue().lock.Lock();
    f_.doorbell.CountInterrupted(&gpu_.queue(), &ring_);
    f_.doorbell.Leave(&gpu_.queue(), &ring_);
    EXPECT_EQ(Unseen(), 3u);
  }
  Interrupt(false);
  Launch();
  EXPECT_THAT(Recorded(), testing::ElementsAre(0u, 4u));
  EXPECT_EQ(Unseen(), 3u);
}

// At that time no service was there to record them.
TEST_F(InterruptionTest, PacketsPassedBeforeATakeoverAreNotCounted) {
  Launch();
  Interrupt(true);
  Pass(3);
  process_.forgotten_stop = Process::kFirstStop;
  Interrupt(false);
  Launch();
  EXPECT_THAT(Recorded(), testing::ElementsAre(0u, 4u));
  EXPECT_EQ(Unseen(), 0u);
}

// An operation depends on a signal of the application.
TEST_F(InterruptionTest, PacketsPassedWhileSignalsAreWatchedAreCounted) {
  f_.capture.Init(&f_.tracker, &f_.kernels, &process_);
  Interrupt(true);
  f_.doorbell.Watch(&gpu_.queue(), static_cast<int64_t>(Write()), &ring_);
  EXPECT_THAT(Recorded(), testing::IsEmpty());
  EXPECT_EQ(Unseen(), 1u);
}

// Packets that nobody asked to record are not missing.
TEST_F(InterruptionTest, PacketsPassedWithoutAnInterruptionAreNotCounted) {
  Launch();
  Pass(3);
  Launch();
  EXPECT_THAT(Recorded(), testing::ElementsAre(0u, 4u));
  EXPECT_EQ(Unseen(), 0u);
}

}  // namespace
}  // namespace rocattach::collector
