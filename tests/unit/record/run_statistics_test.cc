#include "userspace/record/run_statistics.h"

#include <gtest/gtest.h>

namespace rocattach {
namespace {

TEST(RunStatistics, CountsEachVerdictOnce) {
  RunStatistics statistics(5);
  statistics.CountVerdict(Verdict::kOpen);
  statistics.CountVerdict(Verdict::kAttached);
  statistics.CountVerdict(Verdict::kAttached);
  statistics.CountVerdict(Verdict::kMissed);
  const RunTotals totals = statistics.Totals(3);
  EXPECT_EQ(totals.begin_ns, 5u);
  EXPECT_EQ(totals.attached, 2u);
  EXPECT_EQ(totals.missed, 1u);
  EXPECT_EQ(totals.passed + totals.refused, 0u);
  EXPECT_EQ(totals.unheard, 3u);
}

TEST(RunStatistics, ProcessEndReplacesTheLiveCounts) {
  RunStatistics statistics(0);
  statistics.SetLive({.dispatches = 10, .copies = 4}, 2, 1);
  EXPECT_EQ(statistics.Totals(0).dispatches, 10u);
  EXPECT_EQ(statistics.Totals(0).running, 2u);
  EXPECT_EQ(statistics.Totals(0).uncalled, 1u);
  v1::LossAccount account;
  account.set_dispatches_delivered(9);
  account.set_copies_delivered(4);
  account.set_dropped_ring_full(2);
  account.set_packets_unseen(1);
  statistics.CountEnd(account, {.dispatches = 7, .copies = 4});
  const RunTotals totals = statistics.Totals(0);
  EXPECT_EQ(totals.dispatches, 10u - 7u + 9u);
  EXPECT_EQ(totals.copies, 4u);
  EXPECT_EQ(totals.dropped, 2u);
  EXPECT_EQ(totals.unseen, 1u);
}

TEST(RunStatistics, IgnoresLossesReportedByAnImplausibleProcess) {
  RunStatistics statistics(0);
  v1::LossAccount account;
  account.set_not_believable("more than there was room for");
  account.set_dispatches_delivered(3);
  account.set_dropped_ring_full(1'000'000);
  statistics.CountEnd(account, {});
  EXPECT_EQ(statistics.Totals(0).dispatches, 3u);
  EXPECT_EQ(statistics.Totals(0).dropped, 0u);
}

TEST(RunStatistics, TimesOnlyAttachesThatSucceeded) {
  RunStatistics statistics(0);
  Window window;
  window.event.time_ns = 100;
  window.event.mode = ROCATTACH_WINDOW_HELD;
  window.outcome.stopped_ns = 130;
  window.outcome.released_ns = 170;
  window.outcome.reason = AttachReason::kStopTimeout;
  statistics.CountAttach(window, /*hold_ns=*/70);
  EXPECT_EQ(statistics.Totals(0).hit_to_stopped.count(), 0u);
  window.outcome.reason = AttachReason::kNone;
  window.outcome.stage = AttachStage::kDone;
  statistics.CountAttach(window, /*hold_ns=*/70);
  EXPECT_EQ(statistics.Totals(0).hit_to_stopped.max(), 30u);
  EXPECT_EQ(statistics.Totals(0).hit_to_released.max(), 70u);
  // A late attach that did not begin at a probe.
  window.event.mode = ROCATTACH_WINDOW_BLOCKED;
  statistics.CountAttach(window, /*hold_ns=*/70);
  EXPECT_EQ(statistics.Totals(0).hit_to_stopped.count(), 1u);
}

TEST(RunStatistics, TheSummaryCountsLostAndDroppedEvents) {
  RunStatistics statistics(0);
  statistics.CountUnrelated();
  rocattach_bpf_stats kernel = {};
  kernel.lost = 4;
  const v1::WatcherSummary summary = statistics.Summary(kernel, 3);
  EXPECT_EQ(summary.events_lost(), 7u);
  EXPECT_EQ(summary.windows_unrelated(), 1u);
}

}  // namespace
}  // namespace rocattach
