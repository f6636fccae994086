#include "userspace/cli/watch/live_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rocattach {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kSecondNs = 1'000'000'000;

RunTotals Totals(uint64_t dispatches) {
  RunTotals totals;
  totals.running = 2;
  totals.attached = 3;
  totals.dispatches = dispatches;
  totals.copies = 4;
  return totals;
}

TEST(LiveLineTest, HasTheRateSinceTheLastOne) {
  LiveLine line;
  EXPECT_EQ(line.Text(Totals(100), 5 * kSecondNs),
            "2 running, 3 attached | 100 dispatches (0/s), 4 copies");
  EXPECT_THAT(line.Text(Totals(700), 7 * kSecondNs),
              HasSubstr("700 dispatches (300/s)"));
  EXPECT_THAT(line.Text(Totals(700), 8 * kSecondNs), HasSubstr("(0/s)"));
}

TEST(LiveLineTest, TwoLinesInOneInstantHaveNoRate) {
  LiveLine line;
  line.Text(Totals(100), kSecondNs);
  EXPECT_THAT(line.Text(Totals(200), kSecondNs), HasSubstr("(0/s)"));
}

// The final account of a process may have fewer dispatches than were drained.
TEST(LiveLineTest, ATotalThatShrinksIsNoRate) {
  LiveLine line;
  line.Text(Totals(100), kSecondNs);
  EXPECT_THAT(line.Text(Totals(90), 2 * kSecondNs), HasSubstr("90 dispatches (0/s)"));
}

TEST(LiveLineTest, ShowsMissedAndLostCountsOnlyIfNonzero) {
  LiveLine line;
  EXPECT_THAT(line.Text(Totals(1), kSecondNs), Not(HasSubstr("missed")));
  RunTotals totals = Totals(1);
  totals.missed = 1;
  EXPECT_THAT(line.Text(totals, kSecondNs), EndsWith(" | 1 missed, 0 refused"));
  totals.refused = 2;
  totals.dropped = 5;
  totals.unseen = 7;
  EXPECT_THAT(line.Text(totals, kSecondNs),
              EndsWith(" | 1 missed, 2 refused | 5 LOST, 7 UNSEEN"));
}

}  // namespace
}  // namespace rocattach
