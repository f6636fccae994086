// The totals of a machine and its processes at one instant, from which all metrics are
// made.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_SNAPSHOT_H_
#define ROCATTACH_USERSPACE_TELEMETRY_SNAPSHOT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "userspace/attribution/workload.h"
#include "userspace/base/power_histogram.h"
#include "userspace/base/process.h"
#include "userspace/gpus/process_gpu_use.h"
#include "userspace/record/run_statistics.h"
#include "userspace/session/session_backend.h"

namespace rocattach {

struct OperationTotals {
  uint64_t dispatches = 0, time_ns = 0;
};

// Operations on one GPU.
struct GpuTotals {
  OperationTotals operations;
  uint64_t untimed = 0;  // dispatches without times; not in `durations`
  PowerHistogram durations;
};

struct KernelSnapshot {
  uint64_t id = 0;   // a hash of the name: the same on all machines
  std::string name;  // mangled; long ones are truncated
  OperationTotals totals;
};

struct CopyTotals {
  uint64_t copies = 0, bytes = 0, time_ns = 0;
};
// By rocattach_copy_direction.
using CopyTotalsByDirection = std::array<CopyTotals, 5>;

struct MeasuredCounter {
  double sum = 0;
  uint64_t dispatches = 0;  // that were measured
};

// A counter of a whole GPU.
struct GpuCounterTotals {
  double sum = 0;
  uint64_t covered_ns = 0;  // total time in which it was counted
};

// Number of series for each part of a process, see metric_families.cc.
inline constexpr uint64_t kProcessSeries = 2;
inline constexpr uint64_t kGpuSeries = 2;
inline constexpr uint64_t kCopySeries = 3;
inline constexpr uint64_t kCounterSeries = 2;
inline constexpr uint64_t kKernelSeries = 3;
inline constexpr uint64_t kOtherKernelsSeries = 2;
inline constexpr uint64_t kSampledOutSeries = 1;
// For a process that uses GPUs, see gpu_use_families.cc.
inline constexpr uint64_t kProcessInfoSeries = 1;

struct ProcessSnapshot {
  uint32_t pid = 0;
  uint64_t start_ns = 0;  // CLOCK_BOOTTIME
  // The same as wall time, by the clock at the time of the attach: it does not change
  // when that clock is set. 0: not known.
  uint64_t start_wall_ns = 0;
  std::string rocm;  // release, see RocmVersionOf(); empty: not known
  std::string comm;
  uint32_t uid = 0;
  WorkloadIdentity workload;
  bool ended = false;
  uint64_t dropped = 0;  // operations that were seen and lost
  // Dispatches that were seen and deliberately not recorded.
  uint64_t sampled_out = 0;
  // By TargetGpu::key.
  std::map<std::string, OperationTotals> gpus;
  std::map<std::pair<std::string, std::string>, MeasuredCounter> counters;  // key, name
  std::map<size_t, CopyTotals> copies;  // by direction
  std::vector<KernelSnapshot> kernels;
  bool has_other_kernels = false;
  OperationTotals other_kernels;
};

// The owner of the hardware counters of a GPU, as far as this service knows. Where
// processes differ, the larger value is used, which is more certain.
enum class CounterOwner : uint8_t {
  kNone,
  kExternal,  // another tool, reported by rocprofiler-sdk in one of the processes
  kDaemon,    // the session that the service's own options define
  kUser,      // a session that a user has started in this service
};
// "none", "external", "daemon", "user".
const char* CounterOwnerName(CounterOwner owner);

struct GpuSnapshot {
  TargetGpu gpu;
  GpuTotals totals;  // of all processes, ended ones included
  CounterOwner owner = CounterOwner::kNone;
  std::map<std::string, GpuCounterTotals> sampled;  // by counter
  // From the kernel driver; values that it does not report are unset.
  std::optional<uint32_t> partition;
  std::optional<uint64_t> vram_bytes, vram_used_bytes;
  std::optional<uint32_t> busy_percent;
  std::string serial, driver;  // the board's serial number, the driver's version
};

// A process's use of GPUs from the kernel driver, whether it is attached or not.
struct ProcessUseSnapshot {
  ProcessId id;
  std::string comm;
  uint32_t uid = 0;
  WorkloadIdentity workload;
  std::map<std::string, ProcessGpuUse> gpus;  // by TargetGpu::key
};

// Sums over the processes of one workload, on one GPU. Values that are known of none of
// them are unset.
struct WorkloadUse {
  std::optional<uint64_t> vram_bytes, cu_occupancy;  // now
  std::optional<uint64_t> sdma_us;                   // so far, with ended processes
};

struct WorkloadUseSnapshot {
  WorkloadIdentity workload;  // from the first one of its processes
  std::map<std::string, WorkloadUse> gpus;
};

// Lost operations by reason.
struct LossTotals {
  uint64_t ring_full = 0, collector = 0, invalid = 0, inflight = 0, writer = 0;
  uint64_t sampled_out = 0;  // on purpose: not lost, and not in sum()

  void Add(const v1::LossAccount& account);
  uint64_t sum() const { return ring_full + collector + invalid + inflight + writer; }
};

// Windows and mappings that were not handled as usual.
struct WindowLosses {
  // Kernel events lost for lack of room: those of BPF programs, and mappings. Windows
  // may have gone unseen.
  uint64_t events = 0, mappings = 0;
  // Number of times that notifications of processes opening the HSA runtime were lost,
  // and of inspections that were left out. Translated programs may die.
  uint64_t opens = 0, looks_left_out = 0;
  uint64_t over_budget = 0;  // windows that a budget refused in the kernel
  uint64_t unclaimed = 0;    // windows for which the kernel's table had no room
  // Threads that were released at a deadline, before the service was done.
  uint64_t window_deadlines = 0, mapping_deadlines = 0;
  uint64_t mapping_holds = 0;  // threads that were stopped while their copy was probed
  // Time for which no thread has been available to take the kernel's next event.
  uint64_t unattended_ns = 0;
  // Threads of the service that are blocked by processes.
  uint64_t kept_threads = 0;
};

// The consumer of a snapshot. The values are bits, for sets of them.
enum class MetricsConsumer : uint8_t {
  kViewer = 0,  // its snapshots forget nothing
  kScrape = 1,
  kPush = 2,
  kProfile = 4,  // a push of profiles
};

// See PushCounts.
struct PushTotals {
  uint64_t accepted = 0, failed = 0, rejected_points = 0;
};

struct NodeSnapshot {
  uint64_t boot_ns = 0;
  RunTotals run;
  uint64_t running = 0;
  // Processes with windows that run, or are still read, by state.
  std::map<std::string, uint64_t> targets;
  // The highest fill of a collector's ring when it was read, since this consumer's
  // last snapshot: 0 to 1.
  double ring_fill = 0;
  // Time that collectors took from their processes, ended ones included, from their
  // own samples.
  uint64_t overhead_ns = 0;
  std::map<std::string, GpuSnapshot> gpus;  // by key
  std::vector<ProcessSnapshot> processes;
  std::map<std::pair<std::string, std::string>, uint64_t> windows;  // verdict, reason
  // Processes without a window because their copy of the runtime had no probe yet, by
  // reason.
  std::map<std::string, uint64_t> missed_windows;
  // Processes whose workload is not known, or not completely, by reason.
  std::map<std::string, uint64_t> unknown_workloads;
  LossTotals losses;
  std::optional<WindowLosses> window_losses;  // absent: not known
  // The kernel driver's data, if it was read.
  std::vector<ProcessUseSnapshot> uses;  // by process
  std::vector<WorkloadUseSnapshot> workload_uses;
  std::optional<uint64_t> uses_age_ns;  // since they were read
  // Failures to read about GPUs, their use and workloads: by source and reason.
  std::map<std::pair<std::string, std::string>, uint64_t> source_failures;
  // Series that are exposed for processes, the limit, and those that found no room.
  uint64_t series = 0, series_limit = 0, series_refused = 0;
  // Processes that ended and were forgotten before they could be exposed.
  uint64_t unexposed = 0;
  std::optional<PushTotals> pushes;          // absent: nothing is pushed
  std::optional<PushTotals> profile_pushes;  // absent: no profiles are pushed
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_SNAPSHOT_H_
