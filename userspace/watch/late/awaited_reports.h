// Windows at which this service has attached, and whose collectors have not reported.
#ifndef ROCATTACH_USERSPACE_WATCH_LATE_AWAITED_REPORTS_H_
#define ROCATTACH_USERSPACE_WATCH_LATE_AWAITED_REPORTS_H_

#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"

namespace rocattach {

// Thread-safe. Another service on the machine may probe the same collector: reports of
// its targets arrive here too, and must be ignored.
class AwaitedReports {
 public:
  // Above this number, windows that have been awaited for longer than kPatienceNs are
  // dropped: their collectors never reported.
  static constexpr size_t kMost = 8192;
  static constexpr uint64_t kPatienceNs = 60'000'000'000;

  // `window_id` is the time of the window, CLOCK_BOOTTIME.
  void Add(uint64_t window_id, uint64_t now_ns) ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes a report that has arrived, or will not arrive. False if it was not awaited:
  // there is one report for each attach.
  bool Remove(uint64_t window_id) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  absl::flat_hash_set<uint64_t> windows_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_LATE_AWAITED_REPORTS_H_
