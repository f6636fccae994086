#include "userspace/abi/sampling.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace {

uint64_t Sampled(uint32_t sampling, uint64_t count, uint64_t step = 1,
                 uint32_t stream = 1) {
  uint64_t sampled = 0;
  for (uint64_t i = 0; i < count; ++i) {
    sampled += static_cast<uint64_t>(rocattach_is_sampled(sampling, i * step, stream));
  }
  return sampled;
}

TEST(SamplingTest, EveryAndNone) {
  EXPECT_EQ(Sampled(0, 1000), 1000u);
  EXPECT_EQ(Sampled(ROCATTACH_SAMPLING_EVERY, 1000), 1000u);
  EXPECT_EQ(Sampled(ROCATTACH_SAMPLING_NONE, 1000), 0u);
}

// With a million, the standard deviation of the binomial is below half a percent.
TEST(SamplingTest, SamplesOneInNForAnyPatternOfDispatches) {
  constexpr uint64_t kCount = 1'000'000;
  for (uint32_t divisor : {2u, 8u, 32u, 1000u}) {
    const double expected = static_cast<double>(kCount) / divisor;
    // Steps above 1: the same kernel of a loop is, say, every 8th dispatch.
    for (uint64_t step : {1u, 8u, 1024u}) {
      EXPECT_NEAR(static_cast<double>(Sampled(divisor, kCount, step)), expected,
                  0.02 * expected + 5 * 32)
          << divisor << " " << step;
    }
  }
}

TEST(SamplingTest, ThreadsChooseIndependently) {
  std::set<uint64_t> firsts;
  for (uint32_t stream = 0; stream < 64; ++stream) {
    uint64_t index = 0;
    while (!rocattach_is_sampled(64, index, stream)) ++index;
    firsts.insert(index);
  }
  EXPECT_GT(firsts.size(), 16u);
}

}  // namespace
