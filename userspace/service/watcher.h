// The whole service: finds library copies, arms the probe, attaches, records, sums up.
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
#include "userspace/base/wake_event.h"
#include "userspace/record/recorder.h"
#include "userspace/service/armed_libraries.h"
#include "userspace/service/child_command.h"
#include "userspace/service/session_service.h"
#include "userspace/watch/budget.h"
#include "userspace/watch/collector_file.h"
#include "userspace/watch/kernel_probe.h"
#include "userspace/watch/library_scanner.h"
#include "userspace/watch/policy.h"
#include "userspace/watch/stop_guard.h"
#include "userspace/watch/window_server.h"

namespace rocattach {

struct WatcherOptions {
  bool attach = false;  // --auto
  bool dry_run = false;
  PolicyRules policy;
  bool only_own_command = false;  // only what Run()'s command starts
  std::string output_directory = ".";
  std::string output_file;  // empty: the default name
  uint32_t hold_timeout_msec = 250;
  uint32_t duration_msec = 0;  // 0: until a signal, or the command's end
  std::vector<std::string> extra_libraries;
  std::string collector_path;  // empty: beside the program, or where it was installed
  uint64_t plan_flags = ROCATTACH_PLAN_DISPATCHES | ROCATTACH_PLAN_COPIES;
  // Of each ring of a collector; a power of two.
  uint32_t ring_slots = 16384;
  bool recording = true;  // false: armed but idle
  HoldMode best_hold_mode = HoldMode::kYielding;
  // Held processes spin until a thread of ours has taken them up: there must be more of
  // these than processes start in one burst. They sleep nearly always.
  int threads = 64;
  BudgetLimits budget;
  // Names and properties of counters; null: no sessions.
  std::shared_ptr<const CounterCatalog> catalog;
  // Active from the start, on every process; without filters there is none.
  SessionRequest session;
  // Arm processes through rocprofiler-sdk where it is there, so that sessions that come
  // later can measure counters.
  bool always_sdk = false;
  SdkSearch sdk_search;
  std::vector<std::string> recorder_arguments;  // argv, for the stream's header
};

// How a run ended.
struct RunResult {
  RunTotals totals;
  KernelStats kernel;
  // Windows that were refused in the kernel, by user.
  std::vector<UserRefusals> refusals;
  std::vector<std::string> files;
  // Exit status as wait(2) gives it; unset without a command, or while it runs on.
  std::optional<int> command_status;
  bool interrupted = false;
  // The duration was over before the command: WaitForCommand() tells its status.
  bool command_runs_on = false;
  // Processes were asked for what the options name, and no single one could do it.
  bool session_refused = false;
  // The options name a session that measures counters or records calls.
  bool session_measures = false;
  // The first thing that went wrong with the output; OK if nothing did.
  absl::Status output_status;
};

// What users of a run want to know while it goes on. Called on the recorder's thread.
class WatcherObserver : public RecorderObserver {
 public:
  // A process cannot do what a session asks for. Not on the recorder's thread.
  virtual void OnSessionRefused(pid_t pid, const std::string& why) = 0;
  // A probed library is not probed any more. On the thread of Run().
  virtual void OnLibraryChanged(const std::string& path, const std::string& why) = 0;
};

class Watcher {
 public:
  // Does everything up to the point where new processes are seen: after this returns,
  // every first hsa_init opens a window. `observer` may be null and must outlive it.
  static absl::StatusOr<std::unique_ptr<Watcher>> Start(WatcherOptions options,
                                                        WatcherObserver* observer);
  ~Watcher();

  // The hold mode in force; kNone when nothing is to be held.
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
  // Null without a catalog.
  SessionService* sessions() { return sessions_.get(); }

  // Runs until the command ends, the duration is over, or a stop is requested. With a
  // command, forks and execs it first. `on_tick` is called twice a second. Fails only
  // if the command cannot be run, with exec's errno as the status's code.
  absl::StatusOr<RunResult> Run(const std::vector<std::string>& command,
                                const std::function<void()>& on_tick);

  // After a Run() whose command runs on: waits for its end. Signals are passed on as
  // during Run(). Unset if a second one did not wait. Takes all probes away: no other
  // call may follow.
  std::optional<int> WaitForCommand();

  // Ends Run() from a signal handler or another thread: async-signal-safe. A command is
  // sent `forward_signal` (0: it has had its signal already) and waited for; a second
  // request does not wait.
  void RequestStop(int forward_signal);

 private:
  Watcher() = default;
  WindowServerOptions ServerOptions() const;
  // Takes the probes away from libraries that have been written to.
  void DisarmWritten();
  absl::Status ArmCollector();
  // Waits for the run's end, or `deadline_ns` (0: none), and fills in the result.
  void Wait(uint64_t deadline_ns, const std::function<void()>& on_tick,
            RunResult* result);
  // Deals with a request to stop; true: at once.
  bool StopsNow(RunResult* result);

  WatcherOptions options_;
  WatcherObserver* observer_ = nullptr;
  std::unique_ptr<ArmedLibraries> libraries_;
  std::unique_ptr<StopGuard> stop_guard_;
  std::unique_ptr<CollectorFile> collector_;
  std::unique_ptr<KernelProbe> probe_;
  std::unique_ptr<SessionService> sessions_;
  std::unique_ptr<StubRemover> stub_remover_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<WindowServer> server_;
  uint64_t session_ = 0;  // the one that the options name; 0: none
  DescriptorLimit descriptors_;
  WakeEvent stop_;
  std::atomic<int> forward_signal_ = 0;
  std::string no_reason_;
  std::unique_ptr<ChildCommand> command_;  // until it has been waited for
  bool ran_ = false;  // Run() has got as far as the command's start
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_WATCHER_H_
