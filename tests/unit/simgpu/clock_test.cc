#include <gtest/gtest.h>

#include "tests/unit/simgpu/core.h"

namespace {

TEST(SimgpuClock, GpuClocksNeverRunBackwards) {
  for (unsigned gpu = 0; gpu < SIMGPU_MAX_GPUS; gpu++) {
    uint64_t before = 0;
    // Crosses a boundary of a million ticks, where the drift term carries over.
    for (uint64_t ns = 39'999'000; ns < 40'001'000; ns += 7) {
      uint64_t ticks = simgpu_gpu_ticks_at(gpu, ns);
      ASSERT_GE(ticks, before) << "gpu " << gpu << " at " << ns;
      before = ticks;
    }
  }
}

TEST(SimgpuClock, RunsSlightlyFastAndDifferentlyOnEachGpu) {
  constexpr uint64_t kHour = 3600ull * 1'000'000'000;
  uint64_t first = simgpu_gpu_ticks_at(0, 2 * kHour) - simgpu_gpu_ticks_at(0, kHour);
  uint64_t second = simgpu_gpu_ticks_at(1, 2 * kHour) - simgpu_gpu_ticks_at(1, kHour);
  constexpr uint64_t kNominal = 3600ull * SIMGPU_CLOCK_HZ;
  EXPECT_GT(first, kNominal);
  EXPECT_LT(first, kNominal + kNominal / 10'000);
  EXPECT_GT(second, first);
}

TEST(SimgpuClock, DomainsAreFarApart) {
  uint64_t now = simgpu_system_ns();
  EXPECT_GT(simgpu_gpu_ticks_at(1, now), simgpu_gpu_ticks_at(0, now));
  EXPECT_NE(simgpu_gpu_ticks_at(0, now), now);
  EXPECT_NE(simgpu_gpu_ticks_at(0, now), now / 40);
}

TEST(SimgpuClock, DurationsRoundToTicks) {
  EXPECT_EQ(simgpu_ns_to_ticks(0), 0u);
  EXPECT_EQ(simgpu_ns_to_ticks(5000), 125u);
  EXPECT_EQ(simgpu_ns_to_ticks(59), 1u);
  EXPECT_EQ(simgpu_ns_to_ticks(60), 2u);
  EXPECT_EQ(simgpu_ticks_to_ns(125), 5000u);
}

}  // namespace
