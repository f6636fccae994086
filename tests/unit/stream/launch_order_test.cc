#include "userspace/stream/launch_order.h"

#include <gtest/gtest.h>

#include "userspace/abi/hip_stream.h"

namespace rocattach {
namespace {

constexpr uint64_t kMs = 1'000'000;

class LaunchOrderTest : public testing::Test {
 protected:
  static rocattach_dispatch Dispatch(uint64_t packet, uint64_t start_ns,
                                     uint32_t queue = 1) {
    rocattach_dispatch record = {};
    record.kind = ROCATTACH_RECORD_DISPATCH;
    record.queue_id = queue;
    record.packet_index = packet;
    record.enqueue_ns = 1;
    record.start_ns = start_ns;
    record.end_ns = start_ns + 5'000;
    return record;
  }
  uint32_t Add(uint64_t packet, uint64_t start_ns, uint32_t queue = 1) {
    return order_.Add(Dispatch(packet, start_ns, queue));
  }
  LaunchOrder order_;
};

TEST_F(LaunchOrderTest, PacketsInOrderArePossible) {
  for (uint64_t i = 0; i < 10'000; ++i) {
    // Some dispatches start at the same time, and the clocks are not exact.
    EXPECT_EQ(Add(i, 50 * kMs + i / 3 * kMs / 4 - (i % 5 == 0 ? kMs / 2 : 0)), 0u) << i;
  }
}

// This happens if a signal is reused before its times have been read.
TEST_F(LaunchOrderTest, ADispatchWithTheTimesOfALaterOneIsCountedOnce) {
  uint32_t found = 0;
  for (uint64_t i = 1; i < 1'000; ++i) {
    const bool wrong = i >= 500 && i < 515;
    found += Add(i, 50 * kMs + i * kMs + (wrong ? 92 * kMs : 0));
  }
  EXPECT_EQ(found, 15u);
}

TEST_F(LaunchOrderTest, TheOrderInWhichRecordsComeDoesNotMatter) {
  uint32_t found = 0;
  for (uint64_t block = 0; block < 50; ++block) {
    for (uint64_t i = 20; i-- > 0;) {
      const uint64_t packet = 1 + 20 * block + i;
      found +=
          Add(packet, 50 * kMs + packet * 2 * kMs + (packet == 333 ? 30 * kMs : 0));
    }
  }
  EXPECT_EQ(found, 1u);
}

TEST_F(LaunchOrderTest, ADispatchThatStartsBeforeItsSubmissionIsCounted) {
  EXPECT_EQ(Add(1, 50 * kMs), 0u);
  rocattach_dispatch stale = Dispatch(2, 52 * kMs);
  stale.enqueue_ns = 60 * kMs;
  EXPECT_EQ(order_.Add(stale), 1u);
  stale.enqueue_ns = stale.start_ns + kMs / 2;
  stale.packet_index = 3;
  EXPECT_EQ(order_.Add(stale), 0u);
}

TEST_F(LaunchOrderTest, QueuesAreIndependent) {
  EXPECT_EQ(Add(1, 90 * kMs, 1), 0u);
  EXPECT_EQ(Add(2, 50 * kMs, 2), 0u);
  EXPECT_EQ(Add(2, 50 * kMs, 1), 1u);
  EXPECT_EQ(Add(9, 50 * kMs, LaunchOrder::kMostQueues), 0u);
  EXPECT_EQ(Add(1, 90 * kMs, LaunchOrder::kMostQueues), 0u);
}

TEST_F(LaunchOrderTest, DispatchesWithoutPacketOrTimesAreNotCompared) {
  rocattach_dispatch record = Dispatch(PacketIndexOf(3), 90 * kMs);
  EXPECT_EQ(order_.Add(record), 0u);
  record.start_ns = 10 * kMs;
  record.packet_index = PacketIndexOf(4);
  EXPECT_EQ(order_.Add(record), 0u);
  for (uint64_t start : {90, 10, 50, 40}) EXPECT_EQ(Add(0, start * kMs), 0u);
  EXPECT_EQ(Add(1, 90 * kMs), 0u);
  record = Dispatch(2, 0);
  record.flags = ROCATTACH_DISPATCH_UNTIMED;
  EXPECT_EQ(order_.Add(record), 0u);
}

}  // namespace
}  // namespace rocattach
