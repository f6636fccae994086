#include "userspace/record/run_statistics.h"

#include <time.h>

#include <algorithm>

#include "userspace/base/clock.h"
#include "userspace/stream/losses.h"

namespace rocattach {
namespace {

void SetQuantiles(const DurationHistogram& from, v1::Quantiles* to) {
  to->set_count(from.count());
  to->set_median_ns(from.Quantile(0.5));
  to->set_p99_ns(from.Quantile(0.99));
  to->set_max_ns(from.max());
  to->set_min_ns(from.min());
}

}  // namespace

void RunStatistics::CountVerdict(Verdict verdict) {
  absl::MutexLock lock(&mutex_);
  switch (verdict) {
    case Verdict::kAttached:
      ++totals_.attached;
      return;
    case Verdict::kPassed:
      ++totals_.passed;
      return;
    case Verdict::kRefused:
      ++totals_.refused;
      return;
    case Verdict::kMissed:
      ++totals_.missed;
      return;
    case Verdict::kOpen:
      return;
  }
}

void RunStatistics::CountAttach(const Window& window, uint64_t hold_ns) {
  const AttachOutcome& outcome = window.outcome;
  // In a late attach without a probe nothing has been hit.
  const bool hit_a_probe = window.event.mode == ROCATTACH_WINDOW_HELD ||
                           window.event.mode == ROCATTACH_WINDOW_SIGNALLED;
  if (!outcome.ok() || !hit_a_probe) return;
  // A late attach at a call has begun before the call.
  const bool at_call =
      window.event.mode == ROCATTACH_WINDOW_SIGNALLED && IsLate(window.event);
  const uint64_t hit = at_call ? outcome.stopped_ns : window.event.time_ns;
  absl::MutexLock lock(&mutex_);
  totals_.hit_to_stopped.Add(ElapsedNs(hit, outcome.stopped_ns));
  totals_.hit_to_released.Add(hold_ns);
}

void RunStatistics::CountHold(uint64_t hold_ns) {
  absl::MutexLock lock(&mutex_);
  totals_.hold_powers.Add(hold_ns);
}

void RunStatistics::CountProbe(uint64_t probe_ns) {
  absl::MutexLock lock(&mutex_);
  totals_.hold.Add(probe_ns);
}

void RunStatistics::CountUnrelated() {
  absl::MutexLock lock(&mutex_);
  ++totals_.unrelated;
}

void RunStatistics::CountNotBelievable() {
  absl::MutexLock lock(&mutex_);
  ++totals_.not_believable;
}

void RunStatistics::CountUnseenWork() {
  absl::MutexLock lock(&mutex_);
  ++totals_.unseen_work;
}

void RunStatistics::CountBeforeSession(uint64_t dispatches) {
  absl::MutexLock lock(&mutex_);
  totals_.before_session += dispatches;
}

void RunStatistics::CountEnd(const v1::LossAccount& account,
                             const OperationCounts& published) {
  absl::MutexLock lock(&mutex_);
  live_ -= published;
  totals_.dispatches += account.dispatches_delivered();
  totals_.copies += account.copies_delivered();
  totals_.measured += account.counted_delivered();
  totals_.samples += account.samples_delivered();
  totals_.api_calls += account.api_calls_delivered();
  totals_.memory += account.memory_delivered();
  totals_.times_not_believable += account.times_not_believable();
  if (!account.not_believable().empty()) return;
  totals_.dropped += DroppedRecords(account);
  totals_.unseen += account.packets_unseen();
  totals_.sampled_out += account.sampled_out();
}

void RunStatistics::SetLive(const OperationCounts& operations, uint64_t running,
                            uint64_t uncalled) {
  absl::MutexLock lock(&mutex_);
  live_ = operations;
  totals_.running = running;
  totals_.uncalled = uncalled;
}

void RunStatistics::SetPaused(bool paused) {
  absl::MutexLock lock(&mutex_);
  totals_.paused = paused;
}

void RunStatistics::SetSampling(const SamplingLevel& level) {
  absl::MutexLock lock(&mutex_);
  totals_.sampling = level;
}

RunTotals RunStatistics::Totals(uint64_t unheard) const {
  absl::MutexLock lock(&mutex_);
  RunTotals totals = totals_;
  totals.dispatches += live_.dispatches;
  totals.copies += live_.copies;
  totals.unheard = unheard;
  return totals;
}

v1::WatcherSummary RunStatistics::Summary(const rocattach_bpf_stats& kernel,
                                          uint64_t unheard) const {
  v1::WatcherSummary summary;
  absl::MutexLock lock(&mutex_);
  summary.set_begin_ns(totals_.begin_ns);
  summary.set_end_ns(BootNs());
  summary.set_windows_attached(totals_.attached);
  summary.set_windows_passed(totals_.passed);
  summary.set_windows_unrelated(totals_.unrelated);
  summary.set_windows_refused(totals_.refused);
  summary.set_windows_missed(totals_.missed);
  SetQuantiles(totals_.hold, summary.mutable_hold());
  SetQuantiles(totals_.hit_to_released, summary.mutable_hit_to_released());
  SetQuantiles(totals_.hit_to_stopped, summary.mutable_hit_to_stopped());
  summary.set_dispatches(totals_.dispatches);
  summary.set_copies(totals_.copies);
  summary.set_dropped(totals_.dropped);
  summary.set_not_believable(totals_.not_believable);
  summary.set_sampled_out(totals_.sampled_out);
  summary.set_unseen_work(totals_.unseen_work);
  summary.set_probe_hits(kernel.hits);
  summary.set_probe_windows(kernel.windows);
  summary.set_events_lost(kernel.lost + unheard);
  summary.set_claims_full(kernel.claims_full);
  summary.set_windows_over_budget(kernel.over_budget);
  summary.set_holds(kernel.held);
  summary.set_hold_deadlines(kernel.deadlines);
  summary.set_recorder_cpu_ns(ClockNs(CLOCK_PROCESS_CPUTIME_ID));
  return summary;
}

}  // namespace rocattach
