#include "userspace/collector/hsa/old_queues.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/unit/collector/hsa/doorbell_fixture.h"

namespace rocattach::collector {
namespace {

class OldQueuesTest : public testing::Test {
 protected:
  OldQueuesTest() {
    ring_ = f_.rings.Mine();
    plain_.kind = AMD_SIGNAL_KIND_USER;
    queues_->Begin(/*late=*/true);
    for (FakeGpu* gpu : {&gpu_, &other_}) {
      gpu->amd().hsa_queue.features = HSA_QUEUE_FEATURE_KERNEL_DISPATCH;
    }
  }
  static const hsa_queue_t* Handle(const amd_queue_t& queue) {
    return &queue.hsa_queue;
  }
  // While any queue has been seen and is not tracked yet, every signal may be its
  // doorbell.
  bool AnyPending() const {
    return queues_->MayBeDoorbell({reinterpret_cast<uint64_t>(&plain_)});
  }
  // True if the ring was accepted as one for a packet. The queue's agent is unknown, so
  // the packet is only counted.
  bool AcceptsRing(FakeGpu* gpu, int64_t value) {
    const uint64_t before = f_.Sum(&rocattach_ring::packets_unseen);
    EXPECT_EQ(
        queues_->FindByDoorbell(gpu->amd().hsa_queue.doorbell_signal, value, &ring_),
        nullptr);
    return f_.Sum(&rocattach_ring::packets_unseen) != before;
  }

  CaptureFixture f_;
  RingHandle ring_;
  amd_signal_t plain_ = {};
  FakeGpu gpu_{256}, other_{16};
  std::unique_ptr<OldQueues> queues_ = std::make_unique<OldQueues>();
};

TEST_F(OldQueuesTest, AQueueIsKnownUntilItIsDestroyed) {
  EXPECT_FALSE(AnyPending());
  queues_->BeforeReserve(Handle(gpu_.amd()));
  EXPECT_TRUE(AnyPending());
  queues_->BeforeReserve(Handle(gpu_.amd()));
  queues_->Destroying(Handle(gpu_.amd()));
  EXPECT_FALSE(AnyPending());
  queues_->BeforeReserve(Handle(gpu_.amd()));
  EXPECT_TRUE(AnyPending());
}

TEST_F(OldQueuesTest, RecordsFromTheFirstPacketThatIsReservedAfterwards) {
  queues_->BeforeReserve(Handle(gpu_.amd()));
  const uint64_t index = gpu_.Reserve();
  gpu_.Write(index, kKernel);
  EXPECT_TRUE(AcceptsRing(&gpu_, static_cast<int64_t>(index)));
}

// The queue's agent is not known.
TEST_F(OldQueuesTest, EachPacketIsCounted) {
  const uint64_t before = f_.Sum(&rocattach_ring::packets_unseen);
  queues_->BeforeReserve(Handle(gpu_.amd()));
  uint64_t index = 0;
  for (int round = 0; round < 400; ++round) {
    for (int i = 0; i < 3; ++i) {
      index = gpu_.Reserve();
      gpu_.Write(index, kKernel);
    }
    EXPECT_TRUE(AcceptsRing(&gpu_, static_cast<int64_t>(index)));
  }
  EXPECT_EQ(f_.Sum(&rocattach_ring::packets_unseen) - before, index + 1);
}

// A handle of a counted queue is released without our knowledge, and the next handle,
// of another queue, is at the same address.
TEST_F(OldQueuesTest, ReusedHandleAddressRefersToTheNewQueue) {
  amd_queue_t handle = gpu_.amd();
  queues_->BeforeReserve(Handle(handle));
  ASSERT_TRUE(AnyPending());
  queues_->Destroying(Handle(gpu_.amd()));
  ASSERT_FALSE(AnyPending());
  handle = other_.amd();
  queues_->BeforeReserve(Handle(handle));
  EXPECT_TRUE(AnyPending());
  const uint64_t index = other_.Reserve();
  other_.Write(index, kKernel);
  EXPECT_TRUE(AcceptsRing(&other_, static_cast<int64_t>(index)));
}

TEST_F(OldQueuesTest, HandlesOfOneQueueAreOneQueue) {
  amd_queue_t handles[2] = {gpu_.amd(), gpu_.amd()};
  for (int i = 0; i < 4; ++i) queues_->BeforeReserve(Handle(handles[i % 2]));
  EXPECT_TRUE(AnyPending());
  queues_->Destroying(Handle(gpu_.amd()));
  EXPECT_FALSE(AnyPending());
}

// The queue of a copy engine: its ring has 256 bytes, and the doorbell is rung with a
// number of bytes. Here the memory behind the ring looks like a packet.
TEST_F(OldQueuesTest, ARingOfBytesIsNotReadAsPackets) {
  hsa_queue_t& queue = gpu_.amd().hsa_queue;
  queue.type = HSA_QUEUE_TYPE_SINGLE;
  queue.features = 0;
  gpu_.Write(64, kKernel);
  queues_->BeforeReserve(&queue);
  EXPECT_FALSE(AnyPending());
  gpu_.amd().write_dispatch_id = 128;
  EXPECT_FALSE(AcceptsRing(&gpu_, 64));
  EXPECT_FALSE(AnyPending());
  // It does not become a pending queue, whose bytes would count as earlier packets.
  queues_->BeforeReserve(&queue);
  EXPECT_FALSE(AnyPending());
}

TEST_F(OldQueuesTest, ARingWithoutASizeIsNotRead) {
  gpu_.amd().hsa_queue.size = 0;
  gpu_.Write(gpu_.Reserve(), kKernel);
  EXPECT_FALSE(AcceptsRing(&gpu_, 0));
}

}  // namespace
}  // namespace rocattach::collector
