// The late attaches of a service: for each user one batch after the other, on a thread
// of that user, because a process can block its reader.
#ifndef ROCATTACH_USERSPACE_SERVICE_LATE_ATTACHES_H_
#define ROCATTACH_USERSPACE_SERVICE_LATE_ATTACHES_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "userspace/base/process.h"
#include "userspace/base/user_threads.h"

namespace rocattach {

// The status of a process that was not attached to before the recording ended.
absl::Status EndedBeforeAttach(pid_t pid);

class LateAttaches {
 public:
  // Attaches to processes of one user; returns those that had no window, with the
  // reason. Processes of several users are attached to at the same time.
  using AttachFunction =
      std::function<std::map<pid_t, absl::Status>(const std::vector<pid_t>&)>;
  // Called after a batch that the user requested.
  using DoneFunction =
      std::function<void(const std::map<pid_t, absl::Status>&, bool is_last)>;
  using FailedFunction = std::function<void(const std::map<pid_t, absl::Status>&)>;

  // `done` is called after each batch of a Request(), with is_last for the last one;
  // `failed` is called after an Enter() that failed. One call at a time.
  LateAttaches(AttachFunction attach, DoneFunction done,
               FailedFunction failed = nullptr);
  // Stops.
  ~LateAttaches();

  // Attaches to processes that the user requested, together with those of an earlier
  // request that has not begun.
  void Request(std::vector<pid_t> pids) ABSL_LOCKS_EXCLUDED(mutex_);
  // Enters a process late that could not be entered at its window. Once for each
  // process: if it cannot be entered late either, nothing changes.
  void Retry(ProcessId process) ABSL_LOCKS_EXCLUDED(mutex_);
  // Enters a process whose runtime started before its copy had a probe. `failed_` is
  // called if it cannot be entered.
  void Enter(ProcessId process) ABSL_LOCKS_EXCLUDED(mutex_);
  // Finishes the current batches. In the others, processes that the user requested are
  // CANCELLED. Returns false if a batch is not finished within `patience`: then this
  // object, and what the functions use, must not be destroyed.
  bool Stop(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_);
  // Number of processes that have kept their thread for longer than this.
  size_t Kept(absl::Duration than) const { return threads_.Kept(than); }

 private:
  class Batch;
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void AttachRequested(const std::vector<pid_t>& pids);
  void CancelRest() ABSL_LOCKS_EXCLUDED(mutex_);
  void ReportDone(const std::map<pid_t, absl::Status>& failed, bool is_last)
      ABSL_LOCKS_EXCLUDED(report_mutex_);

  const AttachFunction attach_;
  const DoneFunction done_;
  const FailedFunction failed_;
  absl::Mutex report_mutex_;
  absl::Mutex mutex_;
  std::vector<pid_t> requested_ ABSL_GUARDED_BY(mutex_);
  bool request_pending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<ProcessId> retries_ ABSL_GUARDED_BY(mutex_);
  std::vector<ProcessId> to_enter_ ABSL_GUARDED_BY(mutex_);
  std::vector<ProcessId> retried_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  UserThreads threads_;
  std::thread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_LATE_ATTACHES_H_
