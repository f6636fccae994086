// What a run of the service is to do.
#ifndef ROCATTACH_USERSPACE_SERVICE_WATCHER_OPTIONS_H_
#define ROCATTACH_USERSPACE_SERVICE_WATCHER_OPTIONS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "userspace/abi/shared_memory.h"
#include "userspace/attribution/workload_completer.h"
#include "userspace/counters/catalog.h"
#include "userspace/gpus/gpu_roots.h"
#include "userspace/push/otlp_settings.h"
#include "userspace/push/profile_settings.h"
#include "userspace/record/load_governor.h"
#include "userspace/record/rotation_options.h"
#include "userspace/service/session_request.h"
#include "userspace/telemetry/listen_address.h"
#include "userspace/telemetry/node_meters.h"
#include "userspace/watch/backend_choice.h"
#include "userspace/watch/budget.h"
#include "userspace/watch/control_group.h"
#include "userspace/watch/hold_mode.h"
#include "userspace/watch/kernel_programs.h"
#include "userspace/watch/policy.h"

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
  // The duration counts from when each process of `running` has its verdict and has
  // answered the session, if there is one; with wait_for_start, from when the first one
  // is attached to and has answered. In any case from RunDuration::kMostNs after the
  // first attach.
  bool duration_from_attach = false;
  std::vector<std::string> extra_libraries;
  std::string collector_path;  // empty: next to the program, or where it was installed
  uint64_t recording_flags =
      ROCATTACH_RECORDING_DISPATCHES | ROCATTACH_RECORDING_COPIES;
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
  // Other names of the machine that requests for them may have.
  std::vector<std::string> metrics_hosts;
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

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_WATCHER_OPTIONS_H_
