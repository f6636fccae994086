// Periodically reads what the kernel driver reports about GPUs and their processes.
#ifndef ROCATTACH_USERSPACE_SERVICE_GPU_MONITOR_H_
#define ROCATTACH_USERSPACE_SERVICE_GPU_MONITOR_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "userspace/attribution/workload.h"
#include "userspace/attribution/workload_completer.h"
#include "userspace/base/detachable_thread.h"
#include "userspace/base/process.h"
#include "userspace/gpus/gpu_roots.h"
#include "userspace/gpus/gpu_usage_reader.h"
#include "userspace/telemetry/snapshot.h"

namespace rocattach {

// Runs on a thread of its own, because a driver whose GPU hangs blocks its readers.
class GpuMonitor {
 public:
  struct Options {
    GpuRoots roots;
    GpuReaderLimits limits;
    absl::Duration period = absl::Seconds(5);
    // One reading in so many looks at all processes of the machine, the others only at
    // those that compute; 0: all readings do the latter.
    int everyone_every = 6;
    // Completes a process's workload, by the GPUs that it uses; may be null. Does not
    // wait. Returns true if nothing more can be found out. Called on the monitor's
    // thread.
    std::function<bool(const WorkloadQuestion&, WorkloadIdentity*)> complete;
    // Called with each workload to which something was added; may be null. On the
    // monitor's thread.
    std::function<void(const ProcessId&, const WorkloadIdentity&)> on_workload;
    // Called with each reading; may be null. On the monitor's thread.
    std::function<void(const GpuUsage&)> on_reading;
    // Called with the first failure of each source; may be null. On the same thread.
    std::function<void(absl::string_view source, const absl::Status& why)> on_failure;
  };

  explicit GpuMonitor(Options options);
  // Stops.
  ~GpuMonitor();

  // Adds the last reading, if it is not too old. Any thread; does not wait for the
  // driver.
  void AddTo(NodeSnapshot* snapshot) const;
  // No function of the options is called afterwards. A reading that does not finish is
  // left behind.
  void Stop();

 private:
  struct State;

  const std::shared_ptr<State> state_;
  DetachableThread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_GPU_MONITOR_H_
