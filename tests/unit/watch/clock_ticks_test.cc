// The kernel side identifies followed processes by the same start times as the service.
// It cannot query the length of a clock tick, so there that is a constant.
#include <gtest/gtest.h>

#include "bpf/watch_events.h"
#include "userspace/base/clock.h"
#include "userspace/base/process.h"

namespace rocattach {
namespace {

TEST(ClockTicksTest, TheKernelsSideCountsTheSameTicks) {
  EXPECT_EQ(ClockTickNs(), ROCATTACH_CLOCK_TICK_NS);
}

TEST(ClockTicksTest, AStartIsInTheSameTick) {
  for (const uint64_t start_ns :
       {uint64_t{0}, uint64_t{9'999'999}, uint64_t{10'000'000}, uint64_t{10'000'001},
        uint64_t{123'456'789'012'345}}) {
    EXPECT_EQ(ProcessId::StartedAt(1, start_ns).start_ticks,
              start_ns / ROCATTACH_CLOCK_TICK_NS);
  }
}

}  // namespace
}  // namespace rocattach
