// Whose processes are: of those that have windows, and of those that the kernel driver
// knows, from now until Stop().
#ifndef ROCATTACH_USERSPACE_SERVICE_WORKLOAD_TRACKING_H_
#define ROCATTACH_USERSPACE_SERVICE_WORKLOAD_TRACKING_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
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
    // Look at all processes that have a GPU open, not only at those that compute, even if
    // no source needs it.
    bool all_gpu_processes = false;
    // A process's workload is known, or more of it. On threads of its own.
    std::function<void(const ProcessId&, const WorkloadIdentity&)> found;
    // Called with what the driver says of GPUs and their processes, each time that it is
    // read. On a thread of its own; may be null.
    std::function<void(const GpuUsage&)> on_reading;
    // A source cannot be read; once for each. On threads of its own.
    std::function<void(absl::string_view source, const absl::Status& why)> on_failure;
  };

  explicit WorkloadTracking(const Options& options);
  ~WorkloadTracking() { (void)Stop(absl::Hours(1)); }

  // Looks for the workload of a process that has a window.
  void Request(const ProcessId& process, uint64_t cgroup_id) {
    resolver_->Request(process, cgroup_id);
  }
  // What resolving could not do, for metrics.
  WorkloadFailures failures() const { return resolver_->failures(); }
  // Adds GPUs, their processes and failures of sources.
  void AddTo(NodeSnapshot* snapshot) const;

  // No call of `found` or `on_failure` follows. Callable again. False if a process keeps
  // a thread for longer than `patience`: this object, and what the functions use, must
  // not be destroyed then.
  bool Stop(absl::Duration patience);

 private:
  void MonitorGpus(const Options& options);

  std::unique_ptr<WorkloadCompleter> completer_;
  std::unique_ptr<KnownWorkloads> known_;
  std::unique_ptr<WorkloadResolver> resolver_;
  std::unique_ptr<GpuMonitor> gpu_monitor_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_WORKLOAD_TRACKING_H_
