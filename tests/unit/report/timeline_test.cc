#include "userspace/report/html/timeline.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace rocattach {
namespace {

constexpr Timeline::LaneKey kLane = {0, Timeline::LaneKind::kQueue, 1};

uint64_t Busy(const Timeline::Lane& lane) {
  uint64_t busy = 0;
  for (const Timeline::Bucket& bucket : lane.buckets) busy += bucket.busy_ns;
  return busy;
}

uint64_t Operations(const Timeline::Lane& lane) {
  uint64_t operations = 0;
  for (const Timeline::Bucket& bucket : lane.buckets) operations += bucket.operations;
  return operations;
}

TEST(Timeline, BucketsSumToTheBusyTimeInAnyOrder) {
  std::mt19937_64 random(5);
  Timeline timeline;
  uint64_t busy = 0;
  for (int i = 0; i < 20'000; ++i) {
    const int64_t start = static_cast<int64_t>(random() % 3'000'000'000);
    const uint64_t duration = random() % 5'000'000;
    busy += duration;
    timeline.Add(kLane, i % 3, start, duration);
  }
  timeline.Finish();
  ASSERT_EQ(timeline.lanes().size(), 1u);
  EXPECT_EQ(Busy(timeline.lanes()[0]), busy);
  EXPECT_EQ(Operations(timeline.lanes()[0]), 20'000u);
  EXPECT_TRUE(timeline.complete());
  EXPECT_EQ(timeline.operations().size(), 20'000u);
  EXPECT_LE(timeline.origin_ns(), timeline.first_ns());
  EXPECT_GE(timeline.origin_ns() +
                static_cast<int64_t>(Timeline::kBuckets * timeline.width_ns()),
            timeline.last_ns());
}

// Compares each bucket with a sum by hand, for a known width.
TEST(Timeline, OperationsAreWhereTheyWere) {
  Timeline timeline;
  timeline.Add(kLane, 7, 1'000'000, 1000);
  timeline.Add(kLane, 8, 5'000'000, 3000);
  timeline.Add(kLane, 7, 900'000, 500);  // before the first
  timeline.Finish();
  std::map<int64_t, uint64_t> busy;
  const Timeline::Lane& lane = timeline.lanes()[0];
  for (size_t i = 0; i < lane.buckets.size(); ++i) {
    const Timeline::Bucket& bucket = lane.buckets[i];
    if (bucket.busy_ns == 0) continue;
    const int64_t begin =
        timeline.origin_ns() + static_cast<int64_t>(i * timeline.width_ns());
    const int64_t end = begin + static_cast<int64_t>(timeline.width_ns());
    // The start of the operation to which this bucket belongs.
    const int64_t start = end > 5'000'000   ? 5'000'000
                          : end > 1'000'000 ? 1'000'000
                                            : 900'000;
    EXPECT_LE(begin, start + 3000);
    EXPECT_EQ(bucket.item, start == 5'000'000 ? 8u : 7u);
    busy[start] += bucket.busy_ns;
  }
  EXPECT_EQ(busy[900'000], 500u);
  EXPECT_EQ(busy[1'000'000], 1000u);
  EXPECT_EQ(busy[5'000'000], 3000u);
  EXPECT_EQ(timeline.operations()[0].start_ns, 900'000);
  EXPECT_EQ(timeline.operations()[2].item, 8u);
}

TEST(Timeline, TheLongestOperationsAreKept) {
  Timeline timeline(/*max_operations=*/1000);
  for (int64_t i = 0; i < 100'000; ++i) {
    timeline.Add(kLane, 0, i * 1000, i % 1000 == 0 ? 900 : 100);
  }
  timeline.Finish();
  EXPECT_FALSE(timeline.complete());
  EXPECT_LE(timeline.operations().size(), 1000u);
  size_t longest = 0;
  int64_t last = -1, largest_step = 0;
  for (const Timeline::Operation& operation : timeline.operations()) {
    longest += operation.duration_ns == 900 ? 1 : 0;
    largest_step = std::max(largest_step, operation.start_ns - last);
    last = operation.start_ns;
  }
  EXPECT_EQ(longest, 100u);
  // Equally long operations are kept over the whole time, not only at its beginning.
  EXPECT_LT(largest_step, 5'000'000);
  EXPECT_EQ(Operations(timeline.lanes()[0]), 100'000u) << "the buckets have them all";
}

TEST(Timeline, LimitsMemoryAndCountsOmittedLanes) {
  Timeline timeline(100);
  for (uint32_t lane = 0; lane < 1000; ++lane) {
    timeline.Add({lane, Timeline::LaneKind::kQueue, 1}, 0, 1000, 10);
  }
  EXPECT_EQ(timeline.lanes().size(), Timeline::kMaxLanes);
  EXPECT_EQ(timeline.without_lane(), 1000 - Timeline::kMaxLanes);
  EXPECT_LE(timeline.operations().size(), 100u);
}

// Times invented by a process do not move the operations of others.
TEST(Timeline, TimesThatCannotBeTrueAreLeftOut) {
  Timeline timeline;
  timeline.Add(kLane, 0, 1'000'000'000'000'000'000, 1000);
  timeline.Add(kLane, 0, 1, 1000);
  timeline.Add(kLane, 0, INT64_MAX / 2, 1000);
  timeline.Add(kLane, 0, 1'000'000'000'000'000'000, UINT64_MAX);
  timeline.Add(kLane, 0, 1'000'000'000'000'000'000, uint64_t{1} << 62);
  timeline.Add(kLane, 0, INT64_MIN / 2, uint64_t{1} << 62);
  timeline.Finish();
  EXPECT_EQ(timeline.without_lane(), 5u);
  EXPECT_EQ(timeline.last_ns() - timeline.first_ns(), 1000);
  EXPECT_EQ(timeline.operations().size(), 1u);
}

}  // namespace
}  // namespace rocattach
