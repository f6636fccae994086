// Attaches to processes that are already running.
#ifndef ROCATTACH_USERSPACE_SERVICE_LATE_ATTACHES_H_
#define ROCATTACH_USERSPACE_SERVICE_LATE_ATTACHES_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bpf/watch_events.h"
#include "schemas/stream.pb.h"
#include "userspace/base/process.h"
#include "userspace/base/user_threads.h"
#include "userspace/base/wake_event.h"
#include "userspace/service/late_targets.h"
#include "userspace/service/listener_entries.h"
#include "userspace/service/process_history.h"
#include "userspace/service/watcher_observer.h"
#include "userspace/watch/discovery/known_libraries.h"
#include "userspace/watch/late/running_attacher.h"
#include "userspace/watch/late/runtime_start.h"
#include "userspace/watch/windows/kernel_probe.h"
#include "userspace/watch/windows/window_server.h"

namespace rocattach {

// Enters the processes that the user named and their descendants, waits for those that
// cannot be entered yet, and knows when each has its verdict. For each user one batch
// after the other, on a thread of that user, because a process can block its reader.
// Created before the recorder and the server, and outlives both.
class LateAttaches : public RecorderObserver {
 public:
  struct Options {
    // Waits for those that have not started their runtime, or cannot be entered now.
    bool wait_for_start = false;
    uint32_t wait_timeout_msec = 0;  // for each; 0: no limit
    bool follow_children = false;    // descendants as well, later ones included
    // Maximum time to wait for a process to call the runtime.
    uint32_t idle_patience_msec = 0;
    // Allows entering processes where rocprofiler-sdk waits for tools.
    bool use_listeners = false;
    // True if a process may be attached to; null: each may. On a thread of its user.
    std::function<bool(const ProcessId&)> wanted;
    // Called when a process that is waited for has loaded its runtime.
    std::function<void(const ProcessId&)> on_loaded;
  };
  // Attaches to processes of one user; returns those that had no window, with the
  // reason. Processes of several users are attached to at the same time.
  using AttachFunction =
      std::function<std::map<ProcessId, absl::Status>(const std::vector<ProcessId>&)>;

  // `observer` may be null; the others must outlive this object.
  LateAttaches(KernelProbe* probe, ProcessHistory* history, WatcherObserver* observer,
               Options options);
  // Stops.
  ~LateAttaches() override;

  // Gives windows to those of the processes that may need one, before probes are in
  // place. Adds their existing descendants if these are wanted.
  absl::Status Follow(std::vector<ProcessId>* running);
  // Attaches can begin from now on. Both arguments must outlive the last Stop().
  void Start(WindowServer* server, KnownLibraries* libraries);
  // The same with another attach function, which must outlive the last Stop().
  void Start(AttachFunction attach);
  // Enters these processes as soon as possible.
  void Attach(const std::vector<ProcessId>& processes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Enters a process whose runtime started before its copy had a probe. Any thread.
  void Enter(const ProcessId& process) ABSL_LOCKS_EXCLUDED(mutex_);
  // Tries again to enter a process that could not be entered at its window, for a
  // reason that may be over soon. Once for each: if it cannot be entered late either,
  // nothing changes. Any thread.
  void Retry(const ProcessId& process) ABSL_LOCKS_EXCLUDED(mutex_);
  // Enters processes that were waited for and can be entered now. Gives up on those
  // that block the thread that enters them.
  void Poll() ABSL_LOCKS_EXCLUDED(mutex_);
  // Finishes attaches that have begun; the other processes that the user named are
  // reported as CANCELLED. Returns false if a process keeps a thread for longer than
  // `patience`: then this object, and what the functions use, must not be destroyed.
  bool Stop(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_);
  // Number of threads that have been attaching for longer than this.
  size_t KeptThreads(absl::Duration than) const { return threads_.Kept(than); }
  // Begins to detach from processes entered through rocprofiler-sdk, without waiting;
  // `before` runs for each process before its detach. After the end of the recording.
  void BeginDetachListeners(const std::function<void(const ProcessId&)>& before);
  // Completes all these detaches: when this returns, the rings contain what the SDK
  // still had to deliver. After Stop().
  void DetachListeners();

  // Called when a process has opened its window. Any thread.
  void OnWindow(const ProcessId& process) { targets_.OnWindow(process); }
  // For WindowServerOptions::on_late_window.
  void OnLateWindow(const rocattach_event& event, bool served)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // On the recorder's thread.
  void OnVerdict(const v1::Process& process, const v1::WindowEvent& verdict) override;

  // True if only followed processes have windows.
  bool follows() const { return options_.wait_for_start || options_.follow_children; }
  bool IsFollowed(pid_t pid) const;
  // True if a followed process lives.
  bool FollowsAny() const;
  // True if processes are waited for.
  bool waits() const { return targets_.waits(); }
  // True if every process has its verdict, or will have none.
  bool settled() const { return targets_.settled(); }
  // When the first process was attached to and its recording began; 0: none was.
  uint64_t first_attach_ns() const { return first_attach_ns_; }
  // Signalled when one of these may have changed. Its status() tells if it was created.
  WakeEvent& changed() { return changed_; }

 private:
  enum class Origin { kNamed, kEntered, kRetried };
  struct Waiting {
    ProcessId process;
    Origin origin = Origin::kNamed;
  };

  absl::Status FollowOne(const ProcessId& process);
  // True if the process is to be entered now. Otherwise it is waited for if wanted.
  bool HasStarted(const ProcessId& process);
  // The status of a process that has not started its runtime, or of a descendant that
  // has ended; OK if the process is to be entered now.
  absl::Status CheckStarted(const ProcessId& process);
  // Like ReadRuntimeStart(), but without waiting for a process that blocks its readers:
  // kUnknown.
  absl::StatusOr<RuntimeStart> ReadStart(const ProcessId& process);

  // Attaches to them on threads of their users, each together with what waits there.
  void Add(const std::vector<ProcessId>& processes, Origin origin)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void RunBatch(uid_t uid) ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<Waiting> TakeWaiting(uid_t uid) ABSL_LOCKS_EXCLUDED(mutex_);
  // For a batch of one of these results.
  void Answer(const std::vector<Waiting>& batch,
              const std::map<ProcessId, absl::Status>& failed)
      ABSL_LOCKS_EXCLUDED(mutex_, report_mutex_);
  // Answers for all that still waits.
  void CancelWaiting() ABSL_LOCKS_EXCLUDED(mutex_);
  std::map<ProcessId, absl::Status> AttachWanted(
      const std::vector<ProcessId>& processes, WindowServer* server,
      KnownLibraries* libraries) ABSL_LOCKS_EXCLUDED(mutex_);
  // Gives up on processes that have been entering for this long without a verdict.
  // `reason` makes the status.
  void GiveUpOverdue(uint64_t msec, absl::Status (*reason)(pid_t pid));
  // Called for a process that has no window after an attempt, with the reason.
  void OnUnentered(const ProcessId& process, const absl::Status& why);
  // Called for a process that will not be attached to.
  void OnNotAttached(const ProcessId& process, const absl::Status& why);

  KernelProbe* const probe_;
  ProcessHistory* const history_;
  WatcherObserver* const observer_;
  const Options options_;
  LateTargets targets_;
  std::set<ProcessId> named_;  // by the user
  WakeEvent changed_;
  std::atomic<uint64_t> first_attach_ns_ = 0;
  // Set from Start() on.
  std::unique_ptr<ListenerEntries> listeners_;
  AttachFunction attach_;
  std::atomic<bool> started_ = false;
  absl::Mutex report_mutex_;
  absl::Mutex mutex_;
  // Processes of each user whose batch has not begun: its task is waiting.
  std::map<uid_t, std::vector<Waiting>> waiting_ ABSL_GUARDED_BY(mutex_);
  // Named processes in batches that have not ended.
  size_t unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  // One for each batch that is in progress.
  std::set<RunningAttacher*> attachers_ ABSL_GUARDED_BY(mutex_);
  // These use everything above.
  UserThreads readers_;
  UserThreads threads_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_LATE_ATTACHES_H_
