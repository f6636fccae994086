// The whole service: finds library copies, sets the probes, attaches, records,
// summarizes.
#ifndef ROCATTACH_USERSPACE_SERVICE_WATCHER_H_
#define ROCATTACH_USERSPACE_SERVICE_WATCHER_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/attribution/workload_completer.h"
#include "userspace/attribution/workload_resolver.h"
#include "userspace/base/wake_event.h"
#include "userspace/record/recorder.h"
#include "userspace/record/rotation_options.h"
#include "userspace/service/armed_libraries.h"
#include "userspace/service/child_command.h"
#include "userspace/service/driver_backstop.h"
#include "userspace/service/gpu_monitor.h"
#include "userspace/service/history_observer.h"
#include "userspace/service/known_workloads.h"
#include "userspace/service/late_attaches.h"
#include "userspace/service/late_libraries.h"
#include "userspace/service/listener_entries.h"
#include "userspace/service/process_history.h"
#include "userspace/service/requested_attaches.h"
#include "userspace/service/running_targets.h"
#include "userspace/service/service_metrics.h"
#include "userspace/service/session_service.h"
#include "userspace/session/compiled_plan.h"
#include "userspace/watch/budget.h"
#include "userspace/watch/collector_file.h"
#include "userspace/watch/control_group.h"
#include "userspace/watch/kernel_probe.h"
#include "userspace/watch/library_scanner.h"
#include "userspace/watch/policy.h"
#include "userspace/watch/running_attacher.h"
#include "userspace/watch/stop_guard.h"
#include "userspace/watch/window_server.h"

namespace rocattach {

struct WatcherOptions {
  bool attach = false;  // --auto
  bool dry_run = false;
  PolicyRules policy;
  // Only processes of this control group and of those below it.
  std::optional<ControlGroup> only_cgroup;
  bool only_own_command = false;  // only what Run()'s command starts
  // Stop attaching where processes crash right after it (CrashBreaker); never with
  // only_own_command.
  bool crash_breaker = true;
  // Late attach: to these processes, and to all that use the runtime already.
  std::vector<pid_t> running;
  bool all_running = false;
  // Whether processes that start later have windows.
  bool watch_new = true;
  // Of these: those among `running` that have not started their runtime or cannot be
  // entered now, for at most this time (0: no limit), and the descendants of all of
  // them.
  bool wait_for_start = false;
  uint32_t wait_timeout_msec = 0;
  bool follow_children = false;
  uint32_t idle_patience_msec = 500;
  std::string output_directory = ".";
  std::string output_file;  // empty: the default name
  RotationOptions rotation;
  LoadBudget load_budget;  // of the service itself
  // As OutputOptions.on_complete.
  std::function<void(const std::string& file)> on_file_complete;
  uint32_t hold_timeout_msec = 250;
  // How long a new process waits in its hsa_init for the service and its session.
  uint32_t session_wait_msec = 200;
  uint64_t duration_msec = 0;  // 0: until a signal, or the command's end
  // The duration counts from when each process of `running` has its verdict; with
  // wait_for_start, from when the first one is attached to.
  bool duration_from_attach = false;
  std::vector<std::string> extra_libraries;
  std::string collector_path;  // empty: next to the program, or where it was installed
  uint64_t plan_flags = ROCATTACH_PLAN_DISPATCHES | ROCATTACH_PLAN_COPIES;
  // Of each ring of a collector; a power of two.
  uint32_t ring_slots = 16384;
  bool recording = true;  // false: armed but idle
  HoldMode best_hold_mode = HoldMode::kYielding;
  // As if the kernel lacked these: for tests.
  KernelFeatures lacking;
  // Held processes spin until one of these threads serves them, so there must be more
  // of them than processes start in one burst. They sleep most of the time.
  int threads = 64;
  BudgetLimits budget;
  // Names and properties of counters; null: no sessions.
  std::shared_ptr<const CounterCatalog> catalog;
  // Active from the start, on every process; no session if it has no filters.
  SessionRequest session;
  // Arm processes through rocprofiler-sdk where it is available, so that later sessions
  // can measure counters.
  bool always_sdk = false;
  SdkSearch sdk_search;
  // Metrics are served here; unset: nowhere.
  std::optional<ListenAddress> metrics_listen;
  // Metrics are pushed there; unset: nowhere.
  std::optional<OtlpSettings> otlp;
  // Profiles are pushed there; unset: nowhere.
  std::optional<ProfilePushSettings> profile_push;
  NodeMetersOptions metrics;
  // Counters of whole GPUs for metrics: measured for a second out of each period, unless
  // somebody else needs the GPU's counters.
  std::vector<std::string> metrics_counters;
  uint64_t metrics_counters_period_ns = 10'000'000'000;
  GpuRoots gpu_roots;                           // GPUs and their use are read there
  WorkloadSources workload_sources;             // where names of pods and jobs are from
  std::vector<std::string> recorder_arguments;  // argv, for the stream's header
};

// How a run ended.
struct RunResult {
  RunTotals totals;
  KernelStats kernel;
  // Processes whose copy of the runtime had no probe when they mapped it, and that had
  // no window therefore, or may have had none.
  MissedWindows missed_windows;
  // Windows that were refused in the kernel, by user.
  std::vector<UserRefusals> refusals;
  std::vector<std::string> files;
  // Exit status as wait(2) gives it; unset without a command, or while it still runs.
  std::optional<int> command_status;
  bool interrupted = false;
  // The duration ended before the command: WaitForCommand() returns its status.
  bool command_runs_on = false;
  // Processes were asked to do what the options request, and none could.
  bool session_refused = false;
  // The options request a session that measures counters or records calls.
  bool session_measures = false;
  // The first error of the output; OK if there was none.
  absl::Status output_status;
};

// Events of a run that are of interest to users. Called on the recorder's thread.
class WatcherObserver : public RecorderObserver {
 public:
  // A process cannot do what a session requests. Not on the recorder's thread.
  virtual void OnSessionRefused(pid_t pid, const std::string& why) = 0;
  // A process does what a session requests, but for this, which was not named. On the
  // same threads.
  virtual void OnSessionLeftOut(pid_t pid, const std::vector<LeftOut>& left_out) {
    (void)pid, (void)left_out;
  }
  // A process lacks so many collection periods of a session, which had passed before
  // they could be started; `text` says so. Once for each session and process, on the
  // same thread.
  virtual void OnPeriodsSkipped(pid_t pid, uint64_t periods,
                                const std::string& text) = 0;
  // A running process has no window, and so no verdict. On a thread of its own.
  virtual void OnNotAttached(pid_t pid, const absl::Status& why) = 0;
  // Every running process has had its window. On the same thread.
  virtual void OnRunningDone() {}
  // A running process has not started its runtime, or (ABORTED) has no thread that can
  // be entered now, for this reason. `awaited`: its window, or OnNotAttached, will
  // follow; else it may have one. On the thread of Run(), or one of its own.
  virtual void OnNotStarted(pid_t pid, const absl::Status& why, bool awaited) {
    (void)pid, (void)why, (void)awaited;
  }
  // Pushes of metrics begin to fail for this reason, or are accepted again (OK). On a
  // thread of its own.
  virtual void OnMetricsPush(const absl::Status& state) { (void)state; }
  // The same of profiles.
  virtual void OnProfilePush(const absl::Status& state) { (void)state; }
  // A library is no longer probed. On the thread of Run().
  virtual void OnLibraryChanged(const std::string& path, const std::string& why) = 0;
  // Something that metrics are made from cannot be read; once for each `source`. On a
  // thread of its own.
  virtual void OnSourceFailed(const std::string& source, const std::string& why) {
    (void)source, (void)why;
  }
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
  // The running processes that are attached to; with follow_children, their descendants
  // as well.
  const std::vector<pid_t>& running() const { return options_.running; }
  // With follow_children or wait_for_start: a process lives that can have a window.
  bool FollowsAny() const { return targets_->FollowsAny(); }
  // Where metrics are served; empty: nowhere.
  std::string metrics_address() const {
    return metrics_ == nullptr ? "" : metrics_->address();
  }
  // Null without a catalog.
  SessionService* sessions() { return sessions_.get(); }

  // What has been seen of processes, and decided.
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

  // Ends Run() from a signal handler or another thread: async-signal-safe. A command is
  // sent `forward_signal` (0: it has already received its signal) and waited for; a
  // second request does not wait.
  void RequestStop(int forward_signal);

 private:
  Watcher();
  WindowServerOptions ServerOptions() const;
  // With metrics: serves and pushes them. An error if it cannot listen.
  absl::Status ServeMetrics();
  // Reads what the driver says of GPUs and their processes from now on.
  void MonitorGpus();
  // Sets the probes, and watches for copies that appear later.
  absl::Status WatchNew();
  void StopLateLibraries();
  // Removes the probes from libraries that have been written to.
  void DisarmWritten();
  absl::Status ArmCollector();
  // Whether the process is in the control group that was asked for, if any.
  bool IsInScope(pid_t pid) const;
  // The processes that are to be attached to.
  std::vector<pid_t> RunningProcesses() const;
  // Begins to attach to them.
  void AttachToRunning();
  std::unique_ptr<RunningTargets> MakeTargets();
  // Whether the duration that was asked for counts from now on.
  bool DurationBegins() const;
  // The run is over. What was begun gets its verdict, unless that takes long or another
  // request to stop comes.
  void AwaitVerdicts();
  // Waits for the end of the run, or until `duration_ns` (0: no limit) are over, and
  // fills in the result.
  void Wait(uint64_t duration_ns, const std::function<void()>& on_tick,
            RunResult* result);
  // Handles a request to stop; true: stop at once.
  bool StopsNow(RunResult* result);

  // Attaches to these soon.
  void RequestAttaches(std::vector<pid_t> pids);
  // Processes that have no window after an attempt, with the reason.
  void NoteUnentered(const std::map<pid_t, absl::Status>& failed);
  // Reports running processes that a late attach could not be begun for.
  void NoteNotAttached(const std::map<pid_t, absl::Status>& failed);
  // Measures counters for metrics from now on.
  absl::Status CountForMetrics();
  // Finds workloads from now on.
  void FindWorkloads();

  WatcherOptions options_;
  WatcherObserver* observer_ = nullptr;
  // Shared: a thread that a file system keeps may note a miss later.
  std::shared_ptr<ProcessHistory> history_ = std::make_shared<ProcessHistory>();
  std::unique_ptr<HistoryObserver> history_observer_;  // outlives the recorder
  std::unique_ptr<ArmedLibraries> libraries_;
  std::unique_ptr<StopGuard> stop_guard_;
  std::unique_ptr<CollectorFile> collector_;
  std::unique_ptr<KernelProbe> probe_;
  std::unique_ptr<SessionService> sessions_;
  std::unique_ptr<StubRemover> stub_remover_;
  std::unique_ptr<ServiceMetrics> metrics_;  // outlives the recorder
  // The recorder notifies these of verdicts.
  std::unique_ptr<RunningTargets> targets_;
  RequestedAttaches requested_;
  WakeEvent verdict_;  // wakes Run(), which may wait for one
  std::unique_ptr<Recorder> recorder_;
  // These end before the recorder, those that use others before them.
  std::unique_ptr<WorkloadCompleter> completer_;
  std::unique_ptr<KnownWorkloads> known_workloads_;
  std::unique_ptr<WorkloadResolver> workloads_;
  std::unique_ptr<GpuMonitor> gpu_monitor_;  // null if nothing needs it
  std::unique_ptr<ListenerEntries> listener_entries_;
  std::unique_ptr<RunningAttacher> running_attacher_;
  std::unique_ptr<WindowServer> server_;
  std::unique_ptr<LateAttaches> late_attaches_;    // ends before the server
  std::unique_ptr<LateLibraries> late_libraries_;  // null without watch_new
  std::unique_ptr<DriverBackstop> backstop_;       // as well; ends before both
  uint64_t session_ = 0;  // the one that the options request; 0: none
  DescriptorLimit descriptors_;
  WakeEvent stop_;
  std::atomic<int> forward_signal_ = 0;
  std::string no_reason_;
  std::unique_ptr<ChildCommand> command_;  // until it has been waited for
  bool ran_ = false;                       // Run() has reached the start of the command
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_WATCHER_H_
