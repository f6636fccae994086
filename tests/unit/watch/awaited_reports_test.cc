#include "userspace/watch/late/awaited_reports.h"

#include <gtest/gtest.h>

namespace rocattach {
namespace {

TEST(AwaitedReports, AReportComesOnce) {
  AwaitedReports reports;
  reports.Add(7, 10);
  EXPECT_FALSE(reports.Remove(8));  // the window of another service
  EXPECT_TRUE(reports.Remove(7));
  EXPECT_FALSE(reports.Remove(7));
}

TEST(AwaitedReports, DropsTheOldestOnlyWhenThereAreTooMany) {
  AwaitedReports reports;
  for (uint64_t id = 1; id <= AwaitedReports::kMost; ++id) reports.Add(id, id);
  const uint64_t late = AwaitedReports::kPatienceNs + 100;
  reports.Add(late, late);
  EXPECT_FALSE(reports.Remove(99));
  EXPECT_TRUE(reports.Remove(100));
  EXPECT_TRUE(reports.Remove(AwaitedReports::kMost));
  EXPECT_TRUE(reports.Remove(late));
}

}  // namespace
}  // namespace rocattach
