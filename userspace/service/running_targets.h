// The running processes that a service is to attach to: which of them are entered now,
// which are waited for, and which have descendants with windows.
#ifndef ROCATTACH_USERSPACE_SERVICE_RUNNING_TARGETS_H_
#define ROCATTACH_USERSPACE_SERVICE_RUNNING_TARGETS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/base/user_threads.h"
#include "userspace/service/awaited_safe_points.h"
#include "userspace/service/awaited_starts.h"
#include "userspace/watch/late/runtime_start.h"
#include "userspace/watch/windows/kernel_probe.h"

namespace rocattach {

struct RunningTargetsOptions {
  // Waits for those that have not started their runtime, or cannot be entered now.
  bool wait = false;
  uint32_t wait_timeout_msec = 0;  // 0: no limit
  bool children = false;           // descendants as well, later ones included
  // Called when a process has not started its runtime, with the reason; NOT_FOUND: it
  // has ended. `awaited`: it is waited for.
  std::function<void(pid_t, const absl::Status& why, bool awaited)> on_not_started;
  // Called when a process that is waited for has loaded its runtime.
  std::function<void(pid_t)> on_loaded;
  // Called when a process that was waited for will not be attached to.
  std::function<void(pid_t, const absl::Status& why)> on_given_up;
};

// OnWindow(), AwaitSafePoint() and OnSettled() may be called on any thread, all
// other functions on one.
class RunningTargets {
 public:
  // `probe` must outlive this object.
  RunningTargets(KernelProbe* probe, RunningTargetsOptions options);

  // True if only followed processes have windows.
  bool follows() const { return options_.wait || options_.children; }
  // Gives windows to those of the processes that may need one, before probes are in
  // place. Adds their existing descendants if these are wanted.
  absl::Status Follow(std::vector<pid_t>* running);
  // Returns those of `running` that are to be entered now; waits for others if wanted.
  std::vector<pid_t> Started(const std::vector<pid_t>& running);

  // Called when a process has opened its window.
  void OnWindow(pid_t pid) { awaited_.OnWindow(pid); }
  // Notes that no thread of a process could be entered, and why. False without `wait`:
  // that is final. Otherwise it is tried again; `*is_new`: for the first time.
  bool AwaitSafePoint(pid_t pid, const absl::Status& why, bool* is_new);
  // Called if a process needs no further attempt: it has a verdict, or will have none.
  void OnSettled(pid_t pid) { safe_points_.Remove(pid); }
  bool waits() const { return !awaited_.empty() || !safe_points_.empty(); }
  // Returns processes that are to be entered now, because they have started their
  // runtime without a window, or are to be tried again.
  std::vector<pid_t> Poll();
  // True if a process that can have a window lives.
  bool FollowsAny() const;
  bool IsFollowed(pid_t pid) const;

 private:
  absl::Status FollowOne(pid_t pid);
  // The status of a process that has not started its runtime, or of a descendant that
  // has ended; OK if the process is to be entered now.
  absl::Status CheckStarted(pid_t pid);
  // Like ReadRuntimeStart() and CheckRuntimeStarted(), but without waiting for the
  // process: kUnknown and OK if it blocks its readers.
  absl::StatusOr<RuntimeStart> ReadStart(pid_t pid);
  absl::Status CheckStart(pid_t pid);

  KernelProbe* const probe_;
  const RunningTargetsOptions options_;
  UserThreads readers_;
  std::set<pid_t> named_;  // by the user
  AwaitedStarts awaited_;
  AwaitedSafePoints safe_points_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_RUNNING_TARGETS_H_
