// Options of a run of the service.
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
#include "userspace/record/output/rotation_options.h"
#include "userspace/service/session_request.h"
#include "userspace/telemetry/listen_address.h"
#include "userspace/telemetry/node_meters.h"
#include "userspace/watch/budget.h"
#include "userspace/watch/control_group.h"
#include "userspace/watch/policy.h"
#include "userspace/watch/windows/backend_choice.h"
#include "userspace/watch/windows/hold_mode.h"
#include "userspace/watch/windows/kernel_programs.h"

namespace rocattach {

struct WatcherOptions {
  bool attach = false;  // --auto
  bool dry_run = false;
  PolicyRules policy;
  // Only processes of this control group and of those below it.
  std::optional<ControlGroup> only_cgroup;
  bool only_own_command = false;  // only processes below Run()'s command
  // Stop attaching where processes crash right after it (CrashBreaker); never with
  // only_own_command.
  bool crash_breaker = true;
  // Late attach: to these processes, and to all that use the runtime already.
  std::vector<ProcessId> running;
  bool all_running = false;
  // True if processes that start later have windows.
  bool watch_new = true;
  // If set, only these have windows: those among `running` that have not started their
  // runtime or cannot be entered now, for at most this time (0: no limit), and the
  // descendants of all of `running`.
  bool wait_for_start = false;
  uint32_t wait_timeout_msec = 0;
  bool follow_children = false;
  uint32_t idle_patience_msec = 500;
  std::string output_directory = ".";
  std::string output_file;  // empty: the default name
  RotationOptions rotation;
  LoadBudget load_budget;  // for the service itself
  // See OutputOptions.on_complete.
  std::function<void(const std::string& file)> on_file_complete;
  uint32_t hold_timeout_msec = 250;
  // Time limit for a new process to wait in hsa_init for the service and its session.
  uint32_t session_wait_msec = 200;
  uint64_t duration_msec = 0;  // 0: until a signal, or the command's end
  // The duration counts from when each process of `running` has its verdict and has
  // answered the session, if there is one; with wait_for_start, from when the first one
  // is attached to and has answered. It counts from RunDuration::kMostNs after the
  // first attach at the latest.
  bool duration_from_attach = false;
  std::vector<std::string> extra_libraries;
  std::string collector_path;  // empty: next to the program, or where it was installed
  uint64_t recording_flags =
      ROCATTACH_RECORDING_DISPATCHES | ROCATTACH_RECORDING_COPIES;
  // Size of each ring of a collector; a power of two.
  uint32_t ring_slots = 16384;
  bool recording = true;  // false: armed but idle
  HoldMode best_hold_mode = HoldMode::kYielding;
  // Features that are treated as if the kernel lacked them; for tests.
  KernelFeatures lacking;
  // Held processes spin until one of these threads serves them, so there must be more
  // threads than processes that start in one burst. They sleep most of the time.
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
  // Address at which metrics are served; unset: none.
  std::optional<ListenAddress> metrics_listen;
  // Other names of this machine that requests for metrics may use.
  std::vector<std::string> metrics_hosts;
  // Destination for pushes of metrics; unset: none.
  std::optional<OtlpSettings> otlp;
  // Destination for pushes of profiles; unset: none.
  std::optional<ProfilePushSettings> profile_push;
  NodeMetersOptions metrics;
  // Counters of whole GPUs for metrics: measured for a second out of each period,
  // unless something else needs the GPU's counters.
  std::vector<std::string> metrics_counters;
  uint64_t metrics_counters_period_ns = 10'000'000'000;
  GpuRoots gpu_roots;                           // where GPUs and their use are read
  WorkloadSources workload_sources;             // sources of names of pods and jobs
  std::vector<std::string> recorder_arguments;  // argv, for the stream's header
};

// The configuration of collectors, except for the path of the library. Their memory is
// sparse: only the part that is used costs anything.
rocattach_collector_config CollectorConfigOf(const WatcherOptions& options);

// The size of the memory that a collector creates; 0 if the configuration is invalid.
uint64_t CollectorMemoryBytes(rocattach_collector_config config);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_WATCHER_OPTIONS_H_
