// Adds to a workload what its process does not show: the names of the pod and its
// container, the node, and the Slurm job that owns its GPUs.
#ifndef ROCATTACH_USERSPACE_ATTRIBUTION_WORKLOAD_COMPLETER_H_
#define ROCATTACH_USERSPACE_ATTRIBUTION_WORKLOAD_COMPLETER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "userspace/attribution/background_refresh.h"
#include "userspace/attribution/job_mappings.h"
#include "userspace/attribution/kubelet_client.h"
#include "userspace/attribution/pod_logs.h"
#include "userspace/attribution/workload.h"
#include "userspace/base/process.h"
#include "userspace/gpus/gpu_devices.h"

namespace rocattach {

// Sources of names; an empty one is not used.
struct WorkloadSources {
  std::string pod_logs = "/var/log";  // a folder with pods and containers
  // The kubelet's socket.
  std::string pod_resources = KubeletClient::kDefaultSocket;
  // The kubelet need not exist: a missing socket is no failure.
  bool pod_resources_optional = true;
  std::string slurm_mapping;  // a folder
  std::string node;           // the name of this machine in its cluster
  // Minimum time between two readings of a source.
  absl::Duration pause = absl::Seconds(1), kubelet_pause = absl::Seconds(5);
  // The same for a kubelet that does not answer: initial and maximum.
  absl::Duration first_backoff = absl::Seconds(1), most_backoff = absl::Minutes(1);
  // Called with the first failure of each source, on threads of the completer; may be
  // null.
  std::function<void(absl::string_view source, const absl::Status& why)> on_failure;
};

// The name `given` by the user; else $NODE_NAME; else the host's name, if the kubelet's
// socket or Kubernetes' environment show that this is a cluster; else nothing.
std::string NodeName(const std::string& given, const std::string& pod_resources);

// Facts by which the workload of a process is completed.
struct WorkloadQuestion {
  ProcessId process = {};
  uid_t uid = 0;
  // The GPUs that it uses; none if they are not known.
  std::vector<const GpuDevice*> gpus = {};
  // True if processes of several pods use one of these GPUs: then the GPU's owner does
  // not tell which pod this process belongs to.
  bool shared_by_pods = false;
};

// Thread-safe. Complete() reads only memory: sources are read on threads of their own,
// when something is missing.
class WorkloadCompleter {
 public:
  explicit WorkloadCompleter(const WorkloadSources& sources);
  // Stops.
  ~WorkloadCompleter();

  // Fills in what is missing in `workload`. Names from log folders take precedence over
  // the kubelet's, and a job that is known already takes precedence over any mapping.
  // Returns true if nothing more can be found out, false if it is to be called again.
  bool Complete(const WorkloadQuestion& question, WorkloadIdentity* workload)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // True if a source depends on the GPUs of a process. An optional kubelet whose socket
  // does not exist now does not count.
  bool needs_gpus() const;
  // Failures by source and reason, as in NodeSnapshot::source_failures.
  std::map<std::pair<std::string, std::string>, uint64_t> failures() const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Stops all reading; on_failure is not called afterwards.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  enum class Source { kPodLogs, kKubelet, kSlurm };
  // Reports first failures, until the completer is stopped.
  struct Reporter;
  static const char* Name(Source source);

  void NameByLogs(WorkloadIdentity* workload);
  void NameByGpus(const WorkloadQuestion& question, WorkloadIdentity* workload);
  // The one pod that has all GPUs. Unset if none has any, or, with `ambiguous` set, if
  // they do not all belong to the same one.
  static std::optional<PodName> OwnerOf(const std::vector<const GpuDevice*>& gpus,
                                        const DeviceTable& table, bool* ambiguous);
  void FindJob(const WorkloadQuestion& question, WorkloadIdentity* workload);
  // Counts each process once.
  void CountAmbiguous(Source source, const ProcessId& process)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string node_;
  const bool kubelet_optional_;
  const std::shared_ptr<Reporter> reporter_;
  const std::shared_ptr<PodLogs> logs_;           // null: not used
  const std::shared_ptr<KubeletClient> kubelet_;  // null: not used
  const std::shared_ptr<JobMappings> jobs_;       // null: not used
  std::unique_ptr<BackgroundRefresh> read_logs_, ask_kubelet_, read_jobs_;
  mutable absl::Mutex mutex_;
  std::map<Source, uint64_t> ambiguous_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<Source, ProcessId>> counted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_WORKLOAD_COMPLETER_H_
