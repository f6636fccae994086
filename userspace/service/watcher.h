// The whole service: finds library copies, sets the probes, attaches, records,
// summarizes.
#ifndef ROCATTACH_USERSPACE_SERVICE_WATCHER_H_
#define ROCATTACH_USERSPACE_SERVICE_WATCHER_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/record/output/rotation_options.h"
#include "userspace/record/recorder.h"
#include "userspace/service/driver_process_scan.h"
#include "userspace/service/late_attaches.h"
#include "userspace/service/late_libraries.h"
#include "userspace/service/own_session.h"
#include "userspace/service/probed_libraries.h"
#include "userspace/service/process_history.h"
#include "userspace/service/run_duration.h"
#include "userspace/service/run_loop.h"
#include "userspace/service/service_metrics.h"
#include "userspace/service/session_service.h"
#include "userspace/service/watcher_observer.h"
#include "userspace/service/watcher_options.h"
#include "userspace/service/workload_tracking.h"
#include "userspace/session/compiled_plan.h"
#include "userspace/watch/budget.h"
#include "userspace/watch/control_group.h"
#include "userspace/watch/discovery/library_scanner.h"
#include "userspace/watch/discovery/translated_processes.h"
#include "userspace/watch/policy.h"
#include "userspace/watch/windows/collector_file.h"
#include "userspace/watch/windows/kernel_probe.h"
#include "userspace/watch/windows/stop_guard.h"
#include "userspace/watch/windows/window_server.h"

namespace rocattach {

// Outcome of a run.
struct RunResult : RunEnd, OwnSessionResult {
  RunTotals totals;
  KernelStats kernel = {};
  // Processes whose copy of the runtime had no probe when they mapped it, and that
  // therefore had no window, or may have had none.
  MissedWindows missed_windows;
  // Windows that were refused in the kernel, by user.
  std::vector<UserRefusals> refusals;
  std::vector<std::string> files;
  // The first error of the output; OK if there was none.
  absl::Status output_status;
};

class Watcher {
 public:
  // Sets up everything that is needed to see new processes: after this returns, every
  // first hsa_init opens a window. `observer` may be null and must outlive it.
  static absl::StatusOr<std::unique_ptr<Watcher>> Start(WatcherOptions options,
                                                        WatcherObserver* observer);
  ~Watcher();

  // The active hold mode; kNone if nothing is to be held.
  HoldMode hold_mode() const {
    return options_.best_hold_mode == HoldMode::kNone ? HoldMode::kNone
                                                      : probe_->hold_mode();
  }
  const std::string& hold_mode_reason() const {
    return options_.best_hold_mode == HoldMode::kNone ? no_reason_
                                                      : probe_->hold_mode_reason();
  }
  bool realtime() const { return server_ != nullptr && server_->realtime(); }
  const LibraryScan& libraries() const { return libraries_->scan(); }
  const std::string& output_name() const { return recorder_->output_name(); }
  RunTotals Totals() const { return recorder_->Totals(); }
  // The running processes to which the service attaches; with follow_children, their
  // descendants as well.
  const std::vector<ProcessId>& running() const { return options_.running; }
  // Number of processes that have answered whether they do what the session of the
  // options requests. UINT64_MAX without such a session, or if they take too long. To
  // be called on the thread of Run().
  uint64_t SessionAnswers();
  // True if a process that can have a window lives (follow_children, wait_for_start).
  bool FollowsAny() const { return late_attaches_->FollowsAny(); }
  // The address at which metrics are served; empty: none.
  std::string metrics_address() const {
    return metrics_ == nullptr ? "" : metrics_->address();
  }
  // Null without a catalog.
  SessionService* sessions() { return sessions_.get(); }

  // The history of what was seen of processes, and decided.
  const ProcessHistory& history() const { return *history_; }

  // Runs until the command or the duration ends, or a stop is requested. With a
  // command, forks and execs it first. `on_tick` is called at least twice a second.
  // Fails only if the command cannot be run, with exec's errno as the status's code.
  absl::StatusOr<RunResult> Run(const std::vector<std::string>& command,
                                const std::function<void()>& on_tick);

  // After a Run() whose command runs on: waits for its end. Signals are forwarded as
  // during Run(). Unset if a second signal ended the wait. Removes all probes: no other
  // call may follow.
  std::optional<int> WaitForCommand();

  // After Run(): true if processes still block threads, which may be for ever. Then
  // this object, and what the options' functions use, must not be destroyed: the
  // program has to end with _exit().
  bool HasKeptThreads() const { return has_kept_threads_; }

  // Ends Run() from a signal handler or another thread: async-signal-safe. A command is
  // sent `forward_signal` (0: it has already received its signal) and waited for; a
  // second request does not wait.
  void RequestStop(int forward_signal) { loop_.RequestStop(forward_signal); }

 private:
  Watcher() = default;
  // True if processes are entered.
  bool Attaches() const { return options_.attach && !options_.dry_run; }
  // The steps of Start(), in this order; a step with nothing to do is OK.
  absl::Status LoadProbe();
  void FindLibraries();
  absl::Status StartRecorder();
  void TrackWorkloads();
  absl::Status StartSessions();
  absl::Status StartServer();
  WindowServerOptions ServerOptions() const;
  // With metrics: serves and pushes them. An error if it cannot listen.
  absl::Status ServeMetrics();
  // Sets the probes, and watches for copies that appear later.
  absl::Status WatchNew();
  // Finds translated processes, which cannot have a probe, also while probes are set.
  absl::Status WatchTranslated();
  void PassTranslated(const TranslatedProcess& process);
  // True if the windows of this process are of interest. Once the server has started.
  bool IsWanted(pid_t pid) const;
  // Removes the probes from libraries that have been written to.
  void RemoveWrittenProbes();
  absl::Status ArmCollector();
  // True if the process is in the requested control group, or if none was requested.
  bool IsInScope(pid_t pid) const;
  // The processes that are to be attached to.
  std::vector<ProcessId> RunningProcesses() const;
  // Begins to attach to RunningProcesses().
  void AttachToRunning();
  std::unique_ptr<LateAttaches> MakeLateAttaches();
  // When the requested duration began; 0: not yet.
  uint64_t DurationBegan(uint64_t now_ns);
  bool ReadyForDuration();
  // Ends recording in all processes, before anything is waited for.
  void EndRecording();
  // Called when the run is over: waits for the verdicts of attaches that have begun,
  // unless that takes long or another request to stop comes.
  void AwaitVerdicts();
  // Ends everything that the run has begun, in the right order, and fills in the rest
  // of the result.
  void Finish(RunResult* result);
  // Stop the threads that enter and read processes, without waiting for long.
  void StopLateAttaches();
  void StopWatching();
  // Number of threads that processes block.
  size_t KeptThreads() const;

  WatcherOptions options_;
  WatcherObserver* observer_ = nullptr;
  // Shared, because a thread that a file system blocks may note a miss later.
  std::shared_ptr<ProcessHistory> history_ = std::make_shared<ProcessHistory>();
  std::unique_ptr<ProbedLibraries> libraries_;
  std::unique_ptr<StopGuard> stop_guard_;
  std::unique_ptr<CollectorFile> collector_;
  // Outlives the probes.
  std::unique_ptr<TranslatedProcesses> translated_;  // null without watch_new
  std::unique_ptr<KernelProbe> probe_;
  // Outlives the sessions, the recorder and the server, which notify it.
  std::unique_ptr<LateAttaches> late_attaches_;
  std::unique_ptr<SessionService> sessions_;
  std::unique_ptr<StubRemover> stub_remover_;
  std::unique_ptr<ServiceMetrics> metrics_;  // outlives the recorder
  std::unique_ptr<Recorder> recorder_;
  // These end before the recorder; each ends before the others that it uses.
  std::unique_ptr<WorkloadTracking> workloads_;
  std::unique_ptr<WindowServer> server_;
  std::unique_ptr<LateLibraries> late_libraries_;   // null without watch_new
  std::unique_ptr<DriverProcessScan> driver_scan_;  // likewise; ends before both
  std::unique_ptr<OwnSession> own_session_;         // null if the options request none
  DescriptorLimit descriptors_;
  RunLoop loop_;
  RunDuration duration_;
  std::string no_reason_;
  bool ran_ = false;  // Run() has reached the start of the command
  bool has_kept_threads_ = false;
  std::atomic<const WindowServer*> serving_ = nullptr;  // server_, once it has started
  std::atomic<const TranslatedProcesses*> counting_ = nullptr;  // translated_, likewise
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_WATCHER_H_
