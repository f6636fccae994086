// Processes that are prepared for a late attach.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_PREPARED_TARGETS_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_PREPARED_TARGETS_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "injector/prepared_target.h"

namespace rocattach {

class PreparedTargets {
 public:
  void Add(pid_t pid, std::unique_ptr<PreparedTarget> target)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    targets_[pid] = std::move(target);
  }

  // Null if the process is not prepared.
  std::unique_ptr<PreparedTarget> Take(pid_t pid) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    auto found = targets_.extract(pid);
    return found.empty() ? nullptr : std::move(found.mapped());
  }

 private:
  absl::Mutex mutex_;
  std::map<pid_t, std::unique_ptr<PreparedTarget>> targets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_PREPARED_TARGETS_H_
