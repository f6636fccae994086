// What is known of processes for the next attempt of their late attach.
#ifndef ROCATTACH_USERSPACE_WATCH_LATE_LATE_PREPARATIONS_H_
#define ROCATTACH_USERSPACE_WATCH_LATE_LATE_PREPARATIONS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "injector/prepared_target.h"
#include "userspace/base/process.h"

namespace rocattach {

// Thread-safe.
class LatePreparations {
 public:
  // An attempt to enter the process in another way.
  struct FailedAttempt {
    bool loaded = false;  // the collector is loaded there, but not used
    std::string why;      // may be empty
  };

  void Add(const ProcessId& process, std::shared_ptr<PreparedTarget> target)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    known_[process].target = std::move(target);
  }
  // Null if the process is not prepared.
  std::shared_ptr<PreparedTarget> Take(const ProcessId& process)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto found = known_.find(process);
    return found == known_.end() ? nullptr : std::exchange(found->second.target, {});
  }
  void RecordFailedAttempt(const ProcessId& process, FailedAttempt attempt)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    known_[process].failed = std::move(attempt);
  }
  FailedAttempt FailedAttemptOf(const ProcessId& process) const
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto found = known_.find(process);
    return found == known_.end() ? FailedAttempt() : found->second.failed;
  }
  // Called when the late attach of this process is over.
  void Forget(const ProcessId& process) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    known_.erase(process);
  }

 private:
  struct Known {
    std::shared_ptr<PreparedTarget> target;
    FailedAttempt failed;
  };

  mutable absl::Mutex mutex_;
  std::map<ProcessId, Known> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_LATE_LATE_PREPARATIONS_H_
