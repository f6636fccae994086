// Attaches to processes that are already running.
#ifndef ROCATTACH_USERSPACE_SERVICE_RUNNING_ATTACHES_H_
#define ROCATTACH_USERSPACE_SERVICE_RUNNING_ATTACHES_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bpf/watch_events.h"
#include "schemas/stream.pb.h"
#include "userspace/base/process.h"
#include "userspace/base/wake_event.h"
#include "userspace/service/late_attaches.h"
#include "userspace/service/listener_entries.h"
#include "userspace/service/process_history.h"
#include "userspace/service/requested_attaches.h"
#include "userspace/service/running_targets.h"
#include "userspace/service/watcher_observer.h"
#include "userspace/watch/discovery/known_libraries.h"
#include "userspace/watch/late/running_attacher.h"
#include "userspace/watch/windows/kernel_probe.h"
#include "userspace/watch/windows/window_server.h"

namespace rocattach {

// Enters the processes that the user named and their descendants, waits for those that
// cannot be entered yet, and knows when each has its verdict. Created before the
// recorder and the server, and outlives both.
class RunningAttaches : public RecorderObserver {
 public:
  struct Options {
    // Waits for those that have not started their runtime, or cannot be entered now.
    bool wait_for_start = false;
    uint32_t wait_timeout_msec = 0;  // 0: no limit
    bool follow_children = false;
    // Maximum time to wait for a process to call the runtime.
    uint32_t idle_patience_msec = 0;
    // Allows entering processes where rocprofiler-sdk waits for tools.
    bool use_listeners = false;
    // True if a process may be attached to; null: each may. On a thread of its user.
    std::function<bool(pid_t)> wanted;
    // Called when a process that is waited for has loaded its runtime.
    std::function<void(pid_t)> on_loaded;
  };

  // `observer` may be null; the others must outlive this object.
  RunningAttaches(KernelProbe* probe, ProcessHistory* history,
                  WatcherObserver* observer, Options options);

  // Gives windows to those of the processes that may need one, before probes are in
  // place. Adds their existing descendants if these are wanted.
  absl::Status Follow(std::vector<pid_t>* running) { return targets_.Follow(running); }
  // Attaches can begin from now on. Both arguments must outlive the last Stop().
  void Start(WindowServer* server, KnownLibraries* libraries);
  // The same with another attach function, which must outlive the last Stop().
  void Start(LateAttaches::AttachFunction attach);
  // Enters these processes as soon as possible.
  void Attach(const std::vector<pid_t>& pids);
  // Enters processes that were waited for and can be entered now. Gives up on those
  // that block the thread that enters them.
  void Poll();
  // Finishes attaches that have begun; reports the others as not attached. False if a
  // process keeps a thread for longer than `patience`, see LateAttaches::Stop().
  bool Stop(absl::Duration patience);
  // Number of threads that have been attaching for longer than this.
  size_t KeptThreads(absl::Duration than) const;
  // Begins to detach from processes entered through rocprofiler-sdk, without waiting;
  // `before` runs for each process before its detach. After the end of the recording.
  void BeginDetachListeners(const std::function<void(pid_t)>& before);
  // Completes all these detaches: when this returns, the rings contain what the SDK
  // still had to deliver. After Stop().
  void DetachListeners();

  // Enters a process whose runtime started before its copy had a probe. Any thread.
  void Enter(const ProcessId& process);
  // Tries again to enter a process that could not be entered at its window, for a
  // reason that may be over soon. Any thread.
  void Retry(const ProcessId& process);
  // Called when a process has opened its window. Any thread.
  void OnWindow(pid_t pid);
  // For WindowServerOptions::on_late_window.
  void OnLateWindow(const rocattach_event& event, bool served)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // On the recorder's thread.
  void OnVerdict(const v1::Process& process, const v1::WindowEvent& verdict) override;

  // True if only followed processes have windows.
  bool follows() const { return targets_.follows(); }
  bool IsFollowed(pid_t pid) const { return targets_.IsFollowed(pid); }
  // True if a followed process lives.
  bool FollowsAny() const { return targets_.FollowsAny(); }
  // True if processes are waited for.
  bool waits() const { return targets_.waits(); }
  // True if every process has its verdict, or will have none.
  bool settled() const { return requested_.settled(); }
  // When the first process was attached to and its recording began; 0: none was.
  uint64_t first_attach_ns() const { return first_attach_ns_; }
  // Signalled when one of these may have changed. Its status() tells if it was created.
  WakeEvent& changed() { return changed_; }

 private:
  // Gives up on processes that have been awaited for this long without a verdict.
  // `reason` makes the status.
  void GiveUpOverdue(uint64_t msec, absl::Status (*reason)(pid_t pid));
  // Returns those that are wanted; the others are no longer awaited.
  std::vector<pid_t> Wanted(const std::vector<pid_t>& pids);
  // Called for processes that have no window after an attempt, with the reason.
  void OnUnentered(const std::map<pid_t, absl::Status>& failed);
  // Called for processes that will not be attached to.
  void OnNotAttached(const std::map<pid_t, absl::Status>& failed);

  KernelProbe* const probe_;
  ProcessHistory* const history_;
  WatcherObserver* const observer_;
  const Options options_;
  RunningTargets targets_;
  RequestedAttaches requested_;
  WakeEvent changed_;
  std::atomic<uint64_t> first_attach_ns_ = 0;
  // Set from Start() on.
  std::unique_ptr<ListenerEntries> listeners_;
  std::unique_ptr<LateAttaches> attaches_;
  absl::Mutex mutex_;
  // One for each batch that is in progress.
  std::set<RunningAttacher*> attachers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_RUNNING_ATTACHES_H_
