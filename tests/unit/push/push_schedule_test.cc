#include "userspace/push/push_schedule.h"

#include <gtest/gtest.h>

#include <set>

namespace rocattach {
namespace {

TEST(ResultOfHttpStatus, FollowsTheSpecification) {
  for (long status : {200, 202, 204}) {
    EXPECT_EQ(ResultOfHttpStatus(status), PushResult::kAccepted) << status;
  }
  for (long status : {429, 502, 503, 504}) {
    EXPECT_EQ(ResultOfHttpStatus(status), PushResult::kRetry) << status;
  }
  for (long status : {0, 101, 301, 308, 400, 401, 403, 404, 413, 500, 501, 599}) {
    EXPECT_EQ(ResultOfHttpStatus(status), PushResult::kRefused) << status;
  }
}

TEST(PushSchedule, DelaysGrowUpToALimit) {
  PushSchedule schedule(7);
  uint64_t most = PushSchedule::kFirstDelayMsec;
  for (int i = 0; i < 40; ++i) {
    const uint64_t delay = schedule.NextDelayMsec(std::nullopt);
    EXPECT_GE(delay, most / 2);
    EXPECT_LE(delay, most);
    most = std::min(most * 2, PushSchedule::kLongestDelayMsec);
  }
  schedule.Reset();
  EXPECT_LE(schedule.NextDelayMsec(std::nullopt), PushSchedule::kFirstDelayMsec);
}

TEST(PushSchedule, ServicesThatFailTogetherComeBackOneByOne) {
  std::set<uint64_t> delays;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    delays.insert(PushSchedule(seed).NextDelayMsec(std::nullopt));
  }
  EXPECT_GT(delays.size(), 30u);
}

TEST(PushSchedule, WaitsForAsLongAsTheCollectorAsks) {
  PushSchedule schedule(7);
  const uint64_t delay = schedule.NextDelayMsec(20);
  EXPECT_GE(delay, 20'000u);
  EXPECT_LE(delay, 21'000u);
  // The wait is limited: a collector cannot silence the service for good.
  EXPECT_LE(schedule.NextDelayMsec(UINT64_MAX),
            PushSchedule::kLongestRetryAfterMsec + 1000);
}

}  // namespace
}  // namespace rocattach
