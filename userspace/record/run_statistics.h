// Totals of a run so far.
#ifndef ROCATTACH_USERSPACE_RECORD_RUN_STATISTICS_H_
#define ROCATTACH_USERSPACE_RECORD_RUN_STATISTICS_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "bpf/watch_events.h"
#include "schemas/stream.pb.h"
#include "userspace/base/duration_histogram.h"
#include "userspace/base/power_histogram.h"
#include "userspace/record/drain/operation_counts.h"
#include "userspace/record/sampling_level.h"
#include "userspace/watch/windows/window.h"

namespace rocattach {

struct RunTotals {
  uint64_t begin_ns = 0;
  uint64_t attached = 0, passed = 0, refused = 0, missed = 0, open = 0;
  // Windows of processes that the command did not start; they are only counted.
  uint64_t unrelated = 0;
  uint64_t running = 0;  // live attached processes
  // Running processes that have not called the HSA runtime since their attach; they are
  // recorded from their next call on.
  uint64_t uncalled = 0;
  bool paused = false;  // the output cannot be written at the moment
  // The level at which dispatches are recorded now, and the number sampled out of
  // processes that have ended.
  SamplingLevel sampling = SamplingLevel::Every();
  uint64_t sampled_out = 0;
  // Messages for which there was no room, because the output was too slow.
  uint64_t unheard = 0;
  uint64_t dispatches = 0, copies = 0;
  // Records of sessions: dispatches with counters, samples of GPUs, API calls, memory.
  uint64_t measured = 0, samples = 0, api_calls = 0, memory = 0;
  // Dispatches that processes made before a session was in force in them.
  uint64_t before_session = 0;
  uint64_t dropped = 0;  // records lost, for any reason
  uint64_t unseen = 0;   // packets that reached the GPU without passing the collector
  // Processes with implausible accounts; their numbers are in no other total.
  uint64_t not_believable = 0;
  // Processes that use GPUs in ways that are not seen.
  uint64_t unseen_work = 0;
  // Dispatches with implausible times, of processes that have ended.
  uint64_t times_not_believable = 0;
  // Holds: only their part in the probe. Attaches: the time from the hit of the probe.
  DurationHistogram hold, hit_to_stopped, hit_to_released;
  PowerHistogram hold_powers;  // of all threads that were held
};

// Thread-safe: the recorder counts, any thread may read.
class RunStatistics {
 public:
  explicit RunStatistics(uint64_t begin_ns) { totals_.begin_ns = begin_ns; }

  // A window's final verdict.
  void CountVerdict(Verdict verdict) ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts the times of an attach, if it has succeeded.
  void CountAttach(const Window& window, uint64_t hold_ns) ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts the hold of a thread: see HoldNs().
  void CountHold(uint64_t hold_ns) ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts the part of a hold that was in the probe.
  void CountProbe(uint64_t probe_ns) ABSL_LOCKS_EXCLUDED(mutex_);
  void CountUnrelated() ABSL_LOCKS_EXCLUDED(mutex_);
  void CountNotBelievable() ABSL_LOCKS_EXCLUDED(mutex_);
  void CountUnseenWork() ABSL_LOCKS_EXCLUDED(mutex_);
  void CountBeforeSession(uint64_t dispatches) ABSL_LOCKS_EXCLUDED(mutex_);
  // A process has ended: its account replaces the `published` operations, which were
  // counted while it lived.
  void CountEnd(const v1::LossAccount& account, const OperationCounts& published)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Sets the counts of all live processes.
  void SetLive(const OperationCounts& operations, uint64_t running, uint64_t uncalled)
      ABSL_LOCKS_EXCLUDED(mutex_);

  void SetPaused(bool paused) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetSampling(const SamplingLevel& level) ABSL_LOCKS_EXCLUDED(mutex_);

  // `unheard` is counted elsewhere, see RecorderInbox.
  RunTotals Totals(uint64_t unheard) const ABSL_LOCKS_EXCLUDED(mutex_);
  v1::WatcherSummary Summary(const rocattach_bpf_stats& kernel, uint64_t unheard) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  RunTotals totals_ ABSL_GUARDED_BY(mutex_);      // of ended targets
  OperationCounts live_ ABSL_GUARDED_BY(mutex_);  // of living ones
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_RUN_STATISTICS_H_
