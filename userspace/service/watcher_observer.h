// Receives the user-visible events of a run.
#ifndef ROCATTACH_USERSPACE_SERVICE_WATCHER_OBSERVER_H_
#define ROCATTACH_USERSPACE_SERVICE_WATCHER_OBSERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "userspace/record/recorder_observer.h"
#include "userspace/session/compiled_plan.h"

namespace rocattach {

// Receives what users need to know of the sessions of a service. Called on any thread,
// once for a process and session.
class SessionObserver {
 public:
  virtual ~SessionObserver() = default;
  // A process cannot do what a session requests; `why` is for users.
  virtual void OnSessionRefused(pid_t pid, const std::string& why) {
    (void)pid, (void)why;
  }
  // A process does what a session requests, except for this, which was not requested by
  // name.
  virtual void OnSessionLeftOut(pid_t pid, const std::vector<LeftOut>& left_out) {
    (void)pid, (void)left_out;
  }
  // A process missed this number of collection periods of a session, which had passed
  // before they could be started; `text` is for users.
  virtual void OnPeriodsSkipped(pid_t pid, uint64_t periods, const std::string& text) {
    (void)pid, (void)periods, (void)text;
  }
};

// Events of a run that are of interest to users. Called on the recorder's thread.
class WatcherObserver : public RecorderObserver, public SessionObserver {
 public:
  // A running process has no window, and so no verdict. On a thread of its own.
  virtual void OnNotAttached(pid_t pid, const absl::Status& why) {
    (void)pid, (void)why;
  }
  // Every running process has had its window. On the same thread.
  virtual void OnRunningDone() {}
  // A running process has not started its runtime, or (ABORTED) has no thread that can
  // be entered now, for this reason. `awaited`: its window, or OnNotAttached(), will
  // follow; otherwise it may have a window. On the thread of Run(), or one of its own.
  virtual void OnNotStarted(pid_t pid, const absl::Status& why, bool awaited) {
    (void)pid, (void)why, (void)awaited;
  }
  // Pushes of metrics begin to fail for this reason, or are accepted again (OK). On a
  // thread of its own.
  virtual void OnMetricsPush(const absl::Status& state) { (void)state; }
  // The same for profiles.
  virtual void OnProfilePush(const absl::Status& state) { (void)state; }
  // A library is no longer probed. On the thread of Run().
  virtual void OnLibraryChanged(const std::string& path, const std::string& why) {
    (void)path, (void)why;
  }
  // A source of metrics cannot be read; once for each `source`. On a thread of its
  // own.
  virtual void OnSourceFailed(const std::string& source, const std::string& why) {
    (void)source, (void)why;
  }
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_WATCHER_OBSERVER_H_
