// The late attaches of a service, one batch after the other, on a thread of its own.
#ifndef ROCATTACH_USERSPACE_SERVICE_LATE_ATTACHES_H_
#define ROCATTACH_USERSPACE_SERVICE_LATE_ATTACHES_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "userspace/base/process.h"

namespace rocattach {

class LateAttaches {
 public:
  // Attaches to processes; returns those that had no window, with the reason.
  using AttachFunction =
      std::function<std::map<pid_t, absl::Status>(const std::vector<pid_t>&)>;
  // After a batch that the user asked for.
  using DoneFunction = std::function<void(const std::map<pid_t, absl::Status>&)>;

  // `done`: after a Request(); `failed`: after an Enter() that failed.
  LateAttaches(AttachFunction attach, DoneFunction done, DoneFunction failed = nullptr);
  // Stops.
  ~LateAttaches();

  // Processes that the user asked for; together with those of a request that has not
  // begun.
  void Request(std::vector<pid_t> pids) ABSL_LOCKS_EXCLUDED(mutex_);
  // A process that could not be entered at its window. Once for each process: what
  // cannot be entered late either stays as it is.
  void Retry(ProcessId process) ABSL_LOCKS_EXCLUDED(mutex_);
  // A process whose runtime started before its copy had a probe. `failed_` is told if
  // it cannot be entered.
  void Enter(ProcessId process) ABSL_LOCKS_EXCLUDED(mutex_);
  // Finishes the current batch. Of the others, those that the user asked for are
  // CANCELLED.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void CancelRest() ABSL_LOCKS_EXCLUDED(mutex_);

  const AttachFunction attach_;
  const DoneFunction done_, failed_;
  absl::Mutex mutex_;
  std::vector<pid_t> requested_ ABSL_GUARDED_BY(mutex_);
  bool request_pending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<ProcessId> retries_ ABSL_GUARDED_BY(mutex_);
  std::vector<ProcessId> to_enter_ ABSL_GUARDED_BY(mutex_);
  std::vector<ProcessId> retried_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_LATE_ATTACHES_H_
