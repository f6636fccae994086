// Attaching to processes that run already.
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
#include "userspace/watch/kernel_probe.h"
#include "userspace/watch/known_libraries.h"
#include "userspace/watch/running_attacher.h"
#include "userspace/watch/window_server.h"

namespace rocattach {

// The processes that the user asked for and their descendants: enters them, waits for
// those that cannot be entered yet, and knows when each has its verdict. Created before
// the recorder and the server, and outlives both.
class RunningAttaches {
 public:
  struct Options {
    // For processes that have not started their runtime, or cannot be entered now.
    bool wait_for_start = false;
    uint32_t wait_timeout_msec = 0;  // 0: without a limit
    bool follow_children = false;
    // How long to wait for a process to call the runtime.
    uint32_t idle_patience_msec = 0;
    // Processes may be entered where rocprofiler-sdk waits for tools.
    bool use_listeners = false;
    // Whether a process is attached to at all. On a thread of its user's; null: each is.
    std::function<bool(pid_t)> wanted;
    // A process that is waited for has loaded its runtime.
    std::function<void(pid_t)> on_loaded;
  };

  // `observer` may be null; the others must outlive this object.
  RunningAttaches(KernelProbe* probe, ProcessHistory* history,
                  WatcherObserver* observer, Options options);

  // Gives windows to those processes that may need one, before probes are in place.
  // Adds the descendants that exist, if they are wanted.
  absl::Status Follow(std::vector<pid_t>* running) { return targets_.Follow(running); }
  // Attaches can begin from now on. Both must outlive the last Stop().
  void Start(WindowServer* server, KnownLibraries* libraries);
  // The same with another function that attaches; that must outlive the last Stop().
  void Start(LateAttaches::AttachFunction attach);
  // Enters these as soon as they can be.
  void Attach(const std::vector<pid_t>& pids);
  // Enters those that were waited for, and can be entered now. Gives up on those that
  // keep the thread waiting that enters them.
  void Poll();
  // Finishes what has begun; what has not is reported as not attached. False if a
  // process keeps a thread for longer than `patience`, see LateAttaches::Stop().
  bool Stop(absl::Duration patience);
  // Threads that have been attaching for longer than this.
  size_t KeptThreads(absl::Duration than) const;
  // Begins to end what was entered through rocprofiler-sdk, without waiting; `before`
  // runs for each process before its end. The recording has ended.
  void BeginDetachListeners(const std::function<void(pid_t)>& before);
  // Ends all of it: what the SDK has not delivered yet is in the rings when this
  // returns. After Stop().
  void DetachListeners();

  // A process whose runtime started before its copy had a probe. Any thread.
  void Enter(const ProcessId& process);
  // A process could not be entered at its window, for a reason that may be over soon.
  // Any thread.
  void Retry(const ProcessId& process);
  // A process has opened its window. Any thread.
  void NoteWindow(pid_t pid);
  // For WindowServerOptions::on_late_window.
  void OnLateWindow(const rocattach_event& event, bool served)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A process has a verdict. On the recorder's thread.
  void NoteVerdict(pid_t pid, const v1::WindowEvent& verdict);

  // True if only followed processes have windows.
  bool follows() const { return targets_.follows(); }
  bool IsFollowed(pid_t pid) const { return targets_.IsFollowed(pid); }
  // A followed process lives.
  bool FollowsAny() const { return targets_.FollowsAny(); }
  // Processes are waited for.
  bool waits() const { return targets_.waits(); }
  // Every process has its verdict, or will have none.
  bool settled() const { return requested_.settled(); }
  // When the first process was attached to, since which it is recorded; 0: none is.
  uint64_t first_attach_ns() const { return first_attach_ns_; }
  // Signalled when one of these may have changed; its status is that of the constructor.
  WakeEvent& changed() { return changed_; }

 private:
  // Those that have had no verdict for so long will not be attached to.
  // `reason` says why.
  void GiveUpOverdue(uint64_t msec, absl::Status (*reason)(pid_t pid));
  // Those that are wanted; the others are not awaited any more.
  std::vector<pid_t> Wanted(const std::vector<pid_t>& pids);
  // Processes that have no window after an attempt, with the reason.
  void NoteUnentered(const std::map<pid_t, absl::Status>& failed);
  // These will not be attached to.
  void NoteNotAttached(const std::map<pid_t, absl::Status>& failed);

  KernelProbe* const probe_;
  ProcessHistory* const history_;
  WatcherObserver* const observer_;
  const Options options_;
  RunningTargets targets_;
  RequestedAttaches requested_;
  WakeEvent changed_;
  std::atomic<uint64_t> first_attach_ns_ = 0;
  // From Start() on.
  std::unique_ptr<ListenerEntries> listeners_;
  std::unique_ptr<LateAttaches> attaches_;
  absl::Mutex mutex_;
  // One for each batch that is under way.
  std::set<RunningAttacher*> attachers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_RUNNING_ATTACHES_H_
