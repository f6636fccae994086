#include "userspace/service/gpu_monitor.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "userspace/attribution/workload_resolver.h"
#include "userspace/base/clock.h"
#include "userspace/telemetry/gpu_use_totals.h"

namespace rocattach {
namespace {

// Maximum time for which Stop() waits for a reading.
constexpr absl::Duration kStopTimeout = absl::Seconds(2);

// Maximum number of times that a process's control groups and environment are read.
constexpr int kMostReads = 5;

// Pods that have processes on a GPU, by its key.
using PodsByGpu = std::map<std::string, std::set<std::string>>;

void SetFailures(const GpuReadFailures& failures, NodeSnapshot* snapshot) {
  auto& all = snapshot->source_failures;
  all[{"topology", "unreadable"}] = failures.topology;
  all[{"kfd", "unreadable"}] = failures.kfd;
  all[{"kfd", "malformed"}] = failures.malformed;
  all[{"kfd", "unknown_process"}] = failures.unknown_process;
  all[{"drm", "unreadable"}] = failures.drm;
  all[{"proc", "crowded"}] = failures.crowded;
}

}  // namespace

// Shared with the thread, which may be left behind.
struct GpuMonitor::State {
  // A process whose workload is being determined.
  struct Known {
    WorkloadIdentity workload;
    int reads = 0;         // attempts
    bool is_read = false;  // completely
    bool complete = false;
  };

  explicit State(Options given)
      : options(std::move(given)), reader(options.roots, options.limits) {}

  // Performs one reading. False if the monitor has been stopped meanwhile.
  bool Round(bool everyone) ABSL_LOCKS_EXCLUDED(callbacks, mutex);
  // Reads the workload that the process itself shows, unless that has been done.
  void ReadOnce(const ProcessId& process, Known* known) const;
  // The workloads of all processes of a reading.
  std::map<ProcessId, WorkloadIdentity> FindWorkloads(const GpuUsage& usage)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(callbacks);
  std::vector<const GpuDevice*> DevicesOf(const GpuUsage& usage,
                                          const GpuProcess& process) const;

  const Options options;
  GpuUsageReader reader;                 // the thread's
  std::map<ProcessId, Known> workloads;  // the thread's
  bool failure_said = false;             // the thread's

  // Held while functions of the options are called; acquired before `mutex`.
  absl::Mutex callbacks;
  bool stopped ABSL_GUARDED_BY(callbacks) = false;
  mutable absl::Mutex mutex;
  GpuUseTotals totals ABSL_GUARDED_BY(mutex);
  GpuReadFailures failures ABSL_GUARDED_BY(mutex);
};

std::vector<const GpuDevice*> GpuMonitor::State::DevicesOf(
    const GpuUsage& usage, const GpuProcess& process) const {
  std::vector<const GpuDevice*> devices;
  for (const GpuDevice& device : usage.devices) {
    const auto use = process.gpus.find(device.key);
    // Every process that computes is listed for every GPU that it can see, used or not.
    if (use != process.gpus.end() && use->second.vram_bytes().value_or(0) > 0) {
      devices.push_back(&device);
    }
  }
  return devices;
}

void GpuMonitor::State::ReadOnce(const ProcessId& process, Known* known) const {
  if (known->is_read) return;
  WorkloadReading reading;
  auto read = ReadWorkload(process, options.roots.proc, &reading);
  ++known->reads;
  // The process is alive: the driver has just listed it.
  known->is_read = known->reads >= kMostReads || (read.ok() && !reading.unreadable);
  if (read.ok()) known->workload = *std::move(read);
}

std::map<ProcessId, WorkloadIdentity> GpuMonitor::State::FindWorkloads(
    const GpuUsage& usage) {
  std::map<ProcessId, Known> now;
  PodsByGpu pods;
  for (const GpuProcess& process : usage.processes) {
    Known& known = now[process.id];
    if (const auto old = workloads.find(process.id); old != workloads.end()) {
      known = std::move(old->second);
    }
    ReadOnce(process.id, &known);
    if (known.workload.pod_uid.empty()) continue;
    for (const GpuDevice* gpu : DevicesOf(usage, process)) {
      pods[gpu->key].insert(known.workload.pod_uid);
    }
  }
  std::map<ProcessId, WorkloadIdentity> found;
  for (const GpuProcess& process : usage.processes) {
    Known& known = now[process.id];
    if (!known.complete && options.complete != nullptr) {
      WorkloadQuestion question = {process.id, process.uid, DevicesOf(usage, process)};
      for (const GpuDevice* gpu : question.gpus) {
        question.shared_by_pods |= pods[gpu->key].size() > 1;
      }
      const WorkloadIdentity before = known.workload;
      const bool complete = options.complete(question, &known.workload);
      known.complete = complete && known.is_read;
      if (options.on_workload != nullptr && !(known.workload == before)) {
        options.on_workload(process.id, known.workload);
      }
    }
    found[process.id] = known.workload;
  }
  workloads = std::move(now);
  return found;
}

bool GpuMonitor::State::Round(bool everyone) {
  GpuUsage usage = reader.Read(everyone);
  const uint64_t now_ns = ClockNs(CLOCK_MONOTONIC);
  absl::MutexLock calling(&callbacks);
  if (stopped) return false;
  const auto found = FindWorkloads(usage);
  if (options.on_reading != nullptr) options.on_reading(usage);
  if (!failure_said && reader.failures().sum() > 0) {
    failure_said = true;
    if (options.on_failure != nullptr) {
      options.on_failure("GPUs", reader.failures().last);
    }
  }
  absl::MutexLock lock(&mutex);
  totals.Update(std::move(usage), found, now_ns);
  failures = reader.failures();
  return true;
}

GpuMonitor::GpuMonitor(Options options)
    : state_(std::make_shared<State>(std::move(options))),
      thread_("rwa-gpus", kStopTimeout,
              [state = state_](const DetachableThread::StopToken& stop) {
                const Options& given = state->options;
                const int every = given.everyone_every;
                for (int round = 0; state->Round(every != 0 && round % every == 0);
                     ++round) {
                  if (stop.WaitFor(given.period)) break;
                }
              }) {}

GpuMonitor::~GpuMonitor() {
  Stop();
}

void GpuMonitor::AddTo(NodeSnapshot* snapshot) const {
  absl::MutexLock lock(&state_->mutex);
  state_->totals.AddTo(snapshot, ClockNs(CLOCK_MONOTONIC));
  SetFailures(state_->failures, snapshot);
}

void GpuMonitor::Stop() {
  {
    absl::MutexLock calling(&state_->callbacks);
    state_->stopped = true;
  }
  thread_.Stop();
}

}  // namespace rocattach
