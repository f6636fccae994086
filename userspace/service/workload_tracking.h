// Tracks the workloads of processes that have windows, and of those that the kernel
// driver lists, from now until Stop().
#ifndef ROCATTACH_USERSPACE_SERVICE_WORKLOAD_TRACKING_H_
#define ROCATTACH_USERSPACE_SERVICE_WORKLOAD_TRACKING_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schemas/stream.pb.h"
#include "userspace/attribution/workload.h"
#include "userspace/attribution/workload_completer.h"
#include "userspace/attribution/workload_resolver.h"
#include "userspace/service/gpu_monitor.h"
#include "userspace/service/known_workloads.h"
#include "userspace/telemetry/snapshot.h"

namespace rocattach {

class WorkloadTracking {
 public:
  struct Options {
    WorkloadSources sources;
    GpuRoots gpu_roots;
    // Looks at all processes that have a GPU open, not only at those that compute, even
    // if no source needs it.
    bool all_gpu_processes = false;
    // Called when a workload, or more of it, is known. On threads of its own.
    std::function<void(const ProcessId&, const WorkloadIdentity&)> found;
    // Called with what the driver reports about GPUs and their processes, each time
    // that it is read. On a thread of its own; may be null.
    std::function<void(const GpuUsage&)> on_reading;
    // Called when a source cannot be read; once for each. On threads of its own.
    std::function<void(absl::string_view source, const absl::Status& why)> on_failure;
  };

  explicit WorkloadTracking(const Options& options);
  ~WorkloadTracking() { (void)Stop(absl::Hours(1)); }

  // Looks for the workload of a process that has a window.
  void Request(const ProcessId& process, uint64_t cgroup_id) {
    resolver_->Request(process, cgroup_id);
  }
  // Counts of what could not be resolved, for metrics.
  WorkloadFailures failures() const { return resolver_->failures(); }
  // Adds GPUs, their processes and failures of sources.
  void AddTo(NodeSnapshot* snapshot) const;

  // No call of `found` or `on_failure` follows. May be called again. Returns false if a
  // process keeps a thread for longer than `patience`: then this object, and what the
  // functions use, must not be destroyed.
  bool Stop(absl::Duration patience);

 private:
  void MonitorGpus(const Options& options);

  std::unique_ptr<WorkloadCompleter> completer_;
  std::unique_ptr<KnownWorkloads> known_;
  std::unique_ptr<WorkloadResolver> resolver_;
  std::unique_ptr<GpuMonitor> gpu_monitor_;
};

// A workload as a message in recordings: all but the executable and the control group's
// ID, which are in v1::Process.
v1::Workload WorkloadToProto(const WorkloadIdentity& workload);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_WORKLOAD_TRACKING_H_
