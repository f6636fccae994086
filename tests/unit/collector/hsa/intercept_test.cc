#include "userspace/collector/hsa/intercept.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/collector/hsa/fake_hsa.h"

namespace rocattach::collector {
namespace {

// Packets received by the hardware queue behind an intercept queue.
std::vector<hsa_kernel_dispatch_packet_t>& Written() {
  static auto* written = new std::vector<hsa_kernel_dispatch_packet_t>;
  return *written;
}

void Write(const void* packets, uint64_t count) {
  auto* p = static_cast<const hsa_kernel_dispatch_packet_t*>(packets);
  Written().insert(Written().end(), p, p + count);
}

hsa_kernel_dispatch_packet_t Dispatch() {
  hsa_kernel_dispatch_packet_t packet = {};
  packet.header = HSA_PACKET_TYPE_KERNEL_DISPATCH;
  packet.workgroup_size_x = packet.grid_size_x = 1;
  return packet;
}

class InterceptTest : public testing::Test {
 protected:
  void SetUp() override {
    Written().clear();
    ring_ = f_.rings.Mine();
    ASSERT_TRUE(InterceptCapture::Prepare(&gpu_.queue(), 64));
  }
  CaptureFixture f_;
  FakeGpu gpu_{64};
  RingHandle ring_;
  InterceptCapture intercept_;
};

TEST_F(InterceptTest, GivesCopiesASignal) {
  intercept_.Init(&f_.capture, &f_.hsa, /*bounded=*/false);
  hsa_kernel_dispatch_packet_t packets[3] = {Dispatch(), Dispatch(), Dispatch()};
  packets[1].header = HSA_PACKET_TYPE_BARRIER_AND;
  intercept_.Handle(&gpu_.queue(), packets, 3, 10, Write, true, &ring_);
  ASSERT_EQ(Written().size(), 3u);
  EXPECT_NE(Written()[0].completion_signal.handle, 0u);
  EXPECT_EQ(Written()[1].completion_signal.handle, 0u);
  EXPECT_EQ(packets[0].completion_signal.handle, 0u);  // the application's is kept
  EXPECT_EQ(f_.Inflight(), 2);
  EXPECT_EQ(f_.Sum(&rocattach_ring::dispatches_seen), 2u);
}

TEST_F(InterceptTest, PassesOnWhileNotRecording) {
  intercept_.Init(&f_.capture, &f_.hsa, false);
  hsa_kernel_dispatch_packet_t packet = Dispatch();
  intercept_.Handle(&gpu_.queue(), &packet, 1, 0, Write, false, &ring_);
  ASSERT_EQ(Written().size(), 1u);
  EXPECT_EQ(Written()[0].completion_signal.handle, 0u);
  EXPECT_EQ(f_.Sum(&rocattach_ring::dispatches_seen), 0u);
}

// A consumer that keeps at most `kSize` packets: old runtimes assert this limit.
TEST_F(InterceptTest, BoundedQueuesNeverOverflow) {
  intercept_.Init(&f_.capture, &f_.hsa, /*bounded=*/true);
  constexpr size_t kSize = 64;
  static size_t consumed;
  static size_t worst;
  consumed = 0;
  worst = 0;
  auto write = [](const void* packets, uint64_t count) {
    Write(packets, count);
    worst = std::max(worst, Written().size() - consumed);
  };
  auto consume = [](size_t keep) {
    while (Written().size() - consumed > keep) {
      uint64_t handle = Written()[consumed].completion_signal.handle;
      auto* signal = reinterpret_cast<amd_signal_t*>(handle);
      if (signal != nullptr) {
        __atomic_fetch_sub(const_cast<int64_t*>(&signal->value), 1, __ATOMIC_RELEASE);
      }
      ++consumed;
    }
  };
  size_t dispatches = 0;
  for (int round = 0; round < 300; ++round) {
    uint64_t batch = static_cast<uint64_t>(1 + round % 7);
    std::vector<hsa_kernel_dispatch_packet_t> packets(batch, Dispatch());
    intercept_.Handle(&gpu_.queue(), packets.data(), batch, dispatches, write, false,
                      &ring_);
    dispatches += batch;
    consume(40);
  }
  EXPECT_LE(worst, kSize);
  size_t markers = 0;
  for (const auto& p : Written()) markers += PacketType(p.header) != 2;
  EXPECT_EQ(Written().size(), dispatches + markers);
  EXPECT_GT(markers, 0u);
  EXPECT_LT(markers, dispatches / 3);
}

}  // namespace
}  // namespace rocattach::collector
