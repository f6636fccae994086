// The running processes that the user named, and whether each of them has its verdict:
// the duration of a recording counts from then on.
#ifndef ROCATTACH_USERSPACE_SERVICE_REQUESTED_ATTACHES_H_
#define ROCATTACH_USERSPACE_SERVICE_REQUESTED_ATTACHES_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace rocattach {

// Thread-safe.
class RequestedAttaches {
 public:
  // `now`: milliseconds of a monotonic clock.
  explicit RequestedAttaches(std::function<uint64_t()> now) : now_(std::move(now)) {}

  // Adds processes that are being attached to.
  void Add(const std::vector<pid_t>& pids) ABSL_LOCKS_EXCLUDED(mutex_);
  // Called for each verdict, also one of another process. `retried`: the attach will be
  // tried once more, so this verdict is not the last one.
  void OnVerdict(pid_t pid, bool retried) ABSL_LOCKS_EXCLUDED(mutex_);
  // Called if there will be no verdict: the process cannot be attached to, or not now.
  void Remove(pid_t pid) ABSL_LOCKS_EXCLUDED(mutex_);
  // Stops awaiting, and returns, the processes that have been awaited for this long
  // while no other was settled either: they are attached to one after the other.
  std::vector<pid_t> TakeOverdue(uint64_t msec) ABSL_LOCKS_EXCLUDED(mutex_);
  // True if no verdict is awaited.
  bool settled() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Maximum time in which a retry can bring another verdict.
  static constexpr uint64_t kRetryMsec = 3000;

  const std::function<uint64_t()> now_;
  mutable absl::Mutex mutex_;
  struct Awaited {
    uint64_t since = 0;
    uint64_t until = 0;  // when it stops counting; 0: not before its verdict
  };
  std::map<pid_t, Awaited> awaited_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_settled_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_REQUESTED_ATTACHES_H_
