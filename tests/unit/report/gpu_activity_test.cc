#include "userspace/report/gpu_activity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace rocattach {
namespace {

struct Interval {
  uint32_t queue;
  uint64_t start, end;
};

// A reference result, by looking at every nanosecond.
struct Counted {
  uint64_t busy = 0, overlap = 0, gaps = 0;
};
Counted Count(const std::vector<Interval>& intervals) {
  uint64_t first = UINT64_MAX, last = 0;
  for (const Interval& i : intervals) {
    first = std::min(first, i.start);
    last = std::max(last, i.end);
  }
  Counted counted;
  bool was_idle = false;
  for (uint64_t at = first; at < last; ++at) {
    std::vector<uint32_t> queues;
    for (const Interval& i : intervals) {
      const bool known =
          std::find(queues.begin(), queues.end(), i.queue) != queues.end();
      if (i.start <= at && at < i.end && !known) queues.push_back(i.queue);
    }
    counted.busy += queues.empty() ? 0 : 1;
    counted.overlap += queues.size() > 1 ? 1 : 0;
    counted.gaps += queues.empty() && !was_idle ? 1 : 0;
    was_idle = queues.empty();
  }
  return counted;
}

TEST(GpuActivity, CountsBusyTimeGapsAndOverlap) {
  size_t kept = 0;
  GpuActivity activity(&kept);
  activity.Add(1, 100, 200);
  activity.Add(2, 150, 250);  // 50 ns beside queue 1
  activity.Add(1, 400, 500);  // after a gap of 150 ns
  activity.Add(1, 450, 480);  // the same queue: no overlap
  activity.Finish();
  EXPECT_EQ(activity.span_ns(), 400u);
  EXPECT_EQ(activity.busy_ns(), 250u);
  EXPECT_EQ(activity.overlap_ns(), 50u);
  EXPECT_EQ(activity.gaps().count(), 1u);
  EXPECT_EQ(activity.gaps().sum(), 150u);
  EXPECT_EQ(activity.late(), 0u);
  EXPECT_EQ(kept, 0u);
}

TEST(GpuActivity, NoOperationsGiveNoActivity) {
  size_t kept = 0;
  GpuActivity activity(&kept);
  activity.Finish();
  EXPECT_EQ(activity.span_ns(), 0u);
  EXPECT_EQ(activity.busy_ns(), 0u);
  EXPECT_EQ(activity.gaps().count(), 0u);
}

TEST(GpuActivity, AnyOrderGivesTheSameResultAsCounting) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    std::vector<Interval> intervals;
    for (int i = 0; i < 40; ++i) {
      const uint64_t start = 1000 + random() % 800;
      intervals.push_back(
          {static_cast<uint32_t>(random() % 4), start, start + 1 + random() % 40});
    }
    size_t kept = 0;
    GpuActivity activity(&kept);
    for (const Interval& i : intervals) activity.Add(i.queue, i.start, i.end);
    activity.Finish();
    const Counted counted = Count(intervals);
    EXPECT_EQ(activity.busy_ns(), counted.busy);
    EXPECT_EQ(activity.overlap_ns(), counted.overlap);
    EXPECT_EQ(activity.gaps().count(), counted.gaps);
  }
}

// An interval that comes a little late is still placed; one far too late is counted.
TEST(GpuActivity, LimitsKeptIntervalsAndCountsLateOnes) {
  size_t kept = 0;
  GpuActivity activity(&kept, /*max_kept=*/64);
  for (uint64_t i = 0; i < 10'000; ++i) {
    const uint64_t at = (i ^ 7) * 100;  // in groups of eight, in reverse order
    activity.Add(1, 1000 + at, 1000 + at + 40);
    EXPECT_LE(kept, 64u);
  }
  activity.Add(2, 1000, 1000 + 9'999 * 100);  // has run all the time
  activity.Finish();
  EXPECT_EQ(activity.late(), 1u);
  EXPECT_GE(activity.busy_ns(), 10'000u * 40);
  EXPECT_EQ(kept, 0u);
}

// Replacing the end again and again takes no memory, and no time.
TEST(GpuActivity, ManyIntervalsMayBeginAtOnce) {
  size_t kept = 0;
  GpuActivity activity(&kept, 1000);
  for (uint64_t i = 0; i < 100'000; ++i) activity.Add(1, 5, 10 + i);
  activity.Finish();
  EXPECT_EQ(activity.busy_ns(), 100'004u);
  EXPECT_EQ(activity.overlap_ns(), 0u);
}

}  // namespace
}  // namespace rocattach
