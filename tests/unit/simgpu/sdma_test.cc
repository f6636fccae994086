#include <gtest/gtest.h>
#include <string.h>

#include <vector>

#include "tests/unit/simgpu/core.h"

namespace {

uint32_t Low(const void* address) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(address));
}
uint32_t High(const void* address) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(address) >> 32);
}

// A copy queue without a thread of its own: the tests step it.
class SimgpuSdma : public testing::Test {
 protected:
  SimgpuSdma() : ring_(1024) {
    setenv("SIMGPU_COPY_LATENCY_NS", "0", 1);
    simgpu_options_load();
    queue_.kind = SIMGPU_QUEUE_SDMA;
    queue_.node = 1;
    queue_.ring = ring_.data();
    queue_.ring_bytes = ring_.size() * 4;
    queue_.doorbell = &doorbell_;
    queue_.read_word = &read_word_;
  }
  ~SimgpuSdma() override {
    unsetenv("SIMGPU_COPY_LATENCY_NS");
    simgpu_options_load();
  }

  void Put(const std::vector<uint32_t>& packet) {
    for (uint32_t dword : packet) ring_[write_++ % ring_.size()] = dword;
  }
  // Rings, then steps until the queue is empty or waits for anything other than time.
  simgpu_step Process() {
    doorbell_ = write_ * 4;
    simgpu_step step;
    do {
      step = simgpu_sdma_step(&queue_);
    } while (step == SIMGPU_PROGRESS || step == SIMGPU_RUNNING);
    return step;
  }

  std::vector<uint32_t> ring_;
  uint64_t write_ = 0;
  volatile uint64_t doorbell_ = SIMGPU_DOORBELL_SILENT;
  volatile uint64_t read_word_ = 0;
  simgpu_queue queue_ = {};
};

TEST_F(SimgpuSdma, IdleUntilTheDoorbellRings) {
  Put({0});
  EXPECT_EQ(simgpu_sdma_step(&queue_), SIMGPU_IDLE);
  EXPECT_EQ(read_word_, 0u);
  EXPECT_EQ(Process(), SIMGPU_IDLE);
  EXPECT_EQ(read_word_, 4u);
}

TEST_F(SimgpuSdma, CopiesAndWrapsAround) {
  for (int round = 0; round < 500; round++) {
    std::vector<char> from(100 + round, static_cast<char>(round)), to(from.size());
    Put({1, static_cast<uint32_t>(from.size() - 1), 0, Low(from.data()),
         High(from.data()), Low(to.data()), High(to.data())});
    ASSERT_EQ(Process(), SIMGPU_IDLE);
    ASSERT_EQ(from, to);
  }
  EXPECT_EQ(read_word_, 500u * 7 * 4);
}

TEST_F(SimgpuSdma, TimestampsEncloseTheCopysDuration) {
  setenv("SIMGPU_COPY_MBPS", "1000", 1);  // 1 byte per ns
  simgpu_options_load();
  std::vector<char> from(400'000), to(from.size());
  uint64_t start = 0, end = 0;
  Put({13 | 2 << 8, Low(&start), High(&start)});
  Put({1, static_cast<uint32_t>(from.size() - 1), 0, Low(from.data()),
       High(from.data()), Low(to.data()), High(to.data())});
  Put({13 | 2 << 8, Low(&end), High(&end)});
  ASSERT_EQ(Process(), SIMGPU_IDLE);
  EXPECT_GE(end - start, simgpu_ns_to_ticks(400'000));
  unsetenv("SIMGPU_COPY_MBPS");
}

TEST_F(SimgpuSdma, CopiesRectangles) {
  // A 3 x 2 x 2 box of 4-byte elements out of a 10 x 5 x 3 volume into a 4 x 3 x 2 one.
  std::vector<uint32_t> from(10 * 5 * 3), to(4 * 3 * 2, 0);
  for (size_t i = 0; i < from.size(); i++) from[i] = static_cast<uint32_t>(i);
  Put({1 | 4 << 8 | 2u << 29, Low(from.data()), High(from.data()), 2 | 1 << 16,
       1 | (10 - 1) << 13, 50 - 1, Low(to.data()), High(to.data()), 1 | 1 << 16,
       0 | (4 - 1) << 13, 12 - 1, (3 - 1) | (2 - 1) << 16, 2 - 1});
  ASSERT_EQ(Process(), SIMGPU_IDLE);
  for (uint32_t z = 0; z < 2; z++) {
    for (uint32_t y = 0; y < 2; y++) {
      for (uint32_t x = 0; x < 3; x++) {
        EXPECT_EQ(to[(x + 1) + (y + 1) * 4 + z * 12],
                  (x + 2) + (y + 1) * 10 + (z + 1) * 50);
      }
    }
  }
  EXPECT_EQ(to[0], 0u);
}

TEST_F(SimgpuSdma, FillsAndFences) {
  std::vector<uint32_t> to(101, 7);
  uint32_t fence = 0;
  Put({11 | 2u << 30, Low(to.data()), High(to.data()), 0xabcd, (100 - 1) * 4});
  Put({5, Low(&fence), High(&fence), 99});
  ASSERT_EQ(Process(), SIMGPU_IDLE);
  EXPECT_EQ(to[0], 0xabcdu);
  EXPECT_EQ(to[99], 0xabcdu);
  EXPECT_EQ(to[100], 7u);
  EXPECT_EQ(fence, 99u);
}

TEST_F(SimgpuSdma, WaitsForMemoryAndDecrementsSignals) {
  uint32_t gate = 1;
  int64_t signal = 5;
  Put({8 | 3u << 28 | 1u << 31, Low(&gate), High(&gate), 0, 0xffffffff, 0});
  Put({10 | 0x2fu << 25, Low(&signal), High(&signal), 0xffffffff, 0xffffffff, 0, 0, 0});
  EXPECT_EQ(Process(), SIMGPU_BLOCKED);
  EXPECT_EQ(signal, 5);
  gate = 0;
  EXPECT_EQ(Process(), SIMGPU_IDLE);
  EXPECT_EQ(signal, 4);
}

TEST_F(SimgpuSdma, TheFlushFormOfPollDoesNotWait) {
  Put({8 | 1u << 26, 0x1234, 0, 1, 1, 0});
  EXPECT_EQ(Process(), SIMGPU_IDLE);
  EXPECT_EQ(read_word_, 24u);
}

TEST_F(SimgpuSdma, TrapsFireEvents) {
  const uint32_t event = simgpu_event_create(SIMGPU_EVENT_SIGNAL, true);
  ASSERT_NE(event, 0u);
  Put({6, event});
  ASSERT_EQ(Process(), SIMGPU_IDLE);
  EXPECT_EQ(simgpu_event_wait(&event, nullptr, 1, true, 0), SIMGPU_WAIT_DONE);
  simgpu_event_destroy(event);
}

TEST_F(SimgpuSdma, StopsAtAnUnknownOperation) {
  Put({200});
  testing::internal::CaptureStderr();
  Process();
  EXPECT_NE(testing::internal::GetCapturedStderr().find("SDMA"), std::string::npos);
  EXPECT_TRUE(queue_.halted);
}

}  // namespace
