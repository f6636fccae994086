// Packets that the packet processor takes before they are rung for, because a later one
// was rung for: at any instant while the collector reads them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/collector/hsa/doorbell_fixture.h"

namespace rocattach::collector {
namespace {

class UnrungTest : public testing::TestWithParam<bool> {
 protected:
  static constexpr uint64_t kPackets = 300'000;
  static constexpr uint64_t kQueuePackets = 64;

  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a packet processor is no thread that ThreadSanitizer can follow";
#endif
  }
  static rocattach_collector_config Config() {
    rocattach_collector_config config = SmallConfig();
    config.ring_slots = 1u << 19;
    config.inflight_count = 1024;
    return config;
  }
  // The application never fills more than half of the queue. If it filled all of it, the
  // slot of a packet could be written again before the collector has seen it:
  //   1. The packet processor marks the packet as invalid, and is preempted.
  //   2. The application rings for it. The collector cannot tell a packet that is being
  //      taken from one that is not written yet, and leaves it for the next ring.
  //   3. The application fills the queue, and waits for room.
  //   4. The packet processor moves the read index; the application writes into the
  //      slot before it rings. That packet is lost, and counted as such.
  bool HasRoomFor(uint64_t index) {
    return index - LoadAcquire(const_cast<uint64_t*>(&gpu_.amd().read_dispatch_id)) <
           kQueuePackets / 2;
  }
  // The application writes each packet, and rings for it some time later.
  void Produce(amd_signal_t* completion) {
    std::mt19937 random(1);
    RingHandle ring = f_.rings.Mine();
    for (uint64_t i = 0; i < kPackets; ++i) {
      const uint64_t index = gpu_.Reserve();
      const uint64_t patient_until = BootNs() + 60'000'000'000;
      while (!HasRoomFor(index)) {
        std::this_thread::yield();
        ASSERT_LT(BootNs(), patient_until) << "no room for packet " << index;
      }
      gpu_.Write(index, kKernel, completion);
      for (uint32_t pause = random() % 64; pause != 0; --pause) {
        __builtin_ia32_pause();
      }
      f_.doorbell.Ring(&gpu_.queue(), static_cast<int64_t>(index), &ring);
    }
  }

  CaptureFixture f_{Config()};
  FakeGpu gpu_{kQueuePackets};
};

TEST_P(UnrungTest, EachIsRecordedOnce) {
  f_.kernels.Insert(kKernel, 5);
  amd_signal_t signal = {};
  signal.value = kPackets;
  std::atomic<bool> ended = false;
  std::thread processor([&] {
    while (!ended) gpu_.RunUnrung();
  });
  Produce(GetParam() ? &signal : nullptr);
  ended = true;
  processor.join();
  gpu_.RunUnrung();
  f_.Harvest(&gpu_.queue());
  RingHandle ring = f_.rings.Mine();
  f_.tracker.PublishUnfinished(&gpu_.queue().ops,
                               f_.capture.Context(&gpu_.queue(), &ring));
  std::vector<int> recorded(kPackets);
  for (const rocattach_dispatch& dispatch : AllDispatches(f_.memory)) {
    ASSERT_LT(dispatch.packet_index, kPackets);
    ++recorded[dispatch.packet_index];
  }
  EXPECT_EQ(std::count(recorded.begin(), recorded.end(), 1), int64_t{kPackets});
  EXPECT_EQ(f_.Sum(&rocattach_ring::dispatches_seen), kPackets);
  EXPECT_EQ(f_.Sum(&rocattach_ring::packets_unseen), 0u);
  EXPECT_EQ(f_.Sum(&rocattach_ring::dropped), 0u);
}

INSTANTIATE_TEST_SUITE_P(Signals, UnrungTest, testing::Values(false, true),
                         [](const auto& test) {
                           return std::string(test.param ? "Applications" : "Ours");
                         });

// Packets that the packet processor took just before they got a signal of ours.
class UntoldTest : public DoorbellTest {
 protected:
  // Runs the next packet as if it had been taken before it got the signal.
  void RunTaken(uint64_t index) {
    gpu_.packet(index).completion_signal.handle = 0;
    EXPECT_EQ(gpu_.Run(index + 1), 1u);
  }
};

TEST_F(UntoldTest, EndsWithALaterPacketThatWaitedForIt) {
  RunTaken(Launch());
  const uint64_t other = Launch();
  EXPECT_EQ(gpu_.Run(), 1u);
  f_.Harvest(&gpu_.queue());
  EXPECT_EQ(f_.Inflight(), 1) << "packets without the barrier bit overtake others";
  gpu_.set_barriers(true);
  const uint64_t last = Launch();
  EXPECT_EQ(gpu_.Run(), 1u);
  f_.Harvest(&gpu_.queue());
  f_.Harvest(&gpu_.queue());
  EXPECT_EQ(f_.Inflight(), 0);
  const auto records = AllDispatches(f_.memory);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].packet_index, other);
  EXPECT_EQ(records[1].packet_index, last);
  EXPECT_EQ(records[2].packet_index, 0u);
  EXPECT_EQ(records[1].flags, 0u);
  EXPECT_EQ(records[2].flags, ROCATTACH_DISPATCH_UNTIMED);
  EXPECT_EQ(f_.Sum(&rocattach_ring::dispatches_untimed), 1u);
}

TEST_F(UntoldTest, LaterOnesAreStillInFlight) {
  gpu_.set_barriers(true);
  Launch();
  EXPECT_EQ(gpu_.Run(), 1u);
  Launch();
  f_.Harvest(&gpu_.queue());
  f_.Harvest(&gpu_.queue());
  EXPECT_EQ(f_.Inflight(), 1);
  EXPECT_EQ(gpu_.Run(), 1u);
  f_.Harvest(&gpu_.queue());
  for (const rocattach_dispatch& record : AllDispatches(f_.memory)) {
    EXPECT_EQ(record.flags, 0u);
  }
}

// Another tool between us and the runtime may complete packets in a different order.
TEST_F(UntoldTest, TheOrderOfAnotherToolIsNotUsed) {
  f_.tracker.set_times_are_ours(false);
  RunTaken(Launch());
  gpu_.set_barriers(true);
  Launch();
  EXPECT_EQ(gpu_.Run(), 1u);
  f_.Harvest(&gpu_.queue());
  f_.Harvest(&gpu_.queue());
  EXPECT_EQ(f_.Inflight(), 1);
}

// Completions of a former queue in the same place do not count either.
TEST_F(UntoldTest, ANewQueueBeginsAnew) {
  gpu_.set_barriers(true);
  for (int i = 0; i < 5; ++i) {
    Launch();
    gpu_.Run();
  }
  f_.Harvest(&gpu_.queue());
  OpList& ops = gpu_.queue().ops;
  f_.tracker.Retire(&ops);
  EXPECT_EQ(ops.all_ended, 0u);
}

}  // namespace
}  // namespace rocattach::collector
