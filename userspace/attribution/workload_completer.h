// Adds to a workload what is not in its process: names of the pod and its container,
// the node, and a Slurm job that owns its GPUs.
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

// Where names come from; what is empty is not asked.
struct WorkloadSources {
  std::string pod_logs = "/var/log";  // a folder with pods and containers
  // The kubelet's socket.
  std::string pod_resources = KubeletClient::kDefaultSocket;
  // A kubelet need not be there: no socket is no failure.
  bool pod_resources_optional = true;
  std::string slurm_mapping;  // a folder
  std::string node;           // what this machine is called in its cluster
  // Not before this time is over, a source is read again.
  absl::Duration pause = absl::Seconds(1), kubelet_pause = absl::Seconds(5);
  // The same for a kubelet that does not answer: at first, and at most.
  absl::Duration first_backoff = absl::Seconds(1), most_backoff = absl::Minutes(1);
  // Called with the first failure of each source; may be null. On threads of the
  // completer.
  std::function<void(absl::string_view source, const absl::Status& why)> on_failure;
};

// `given` by the user; else $NODE_NAME; else the host's name, where the kubelet or its
// environment show that this is a cluster; else nothing.
std::string NodeName(const std::string& given, const std::string& pod_resources);

// What a process is known by.
struct WorkloadQuestion {
  ProcessId process = {};
  uid_t uid = 0;
  // That it uses; none if that is not known.
  std::vector<const GpuDevice*> gpus = {};
  // Processes of several pods use one of them: who owns it does not say whose this
  // process is.
  bool shared_by_pods = false;
};

// Thread-safe. Complete() reads nothing but memory: sources are read on threads of
// their own, when something is missing.
class WorkloadCompleter {
 public:
  explicit WorkloadCompleter(const WorkloadSources& sources);
  // Stops.
  ~WorkloadCompleter();

  // Fills in what is missing in `workload`. Names that log folders have count more than
  // the kubelet's, and a job that is known already counts more than any mapping. Returns
  // true if there is nothing more to be found out, else it is to be asked again.
  bool Complete(const WorkloadQuestion& question, WorkloadIdentity* workload)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether a source here goes by the GPUs of a process. An optional kubelet that is not
  // there now does not count.
  bool needs_gpus() const;
  // Failures by source and reason, as in NodeSnapshot::source_failures.
  std::map<std::pair<std::string, std::string>, uint64_t> failures() const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Reads nothing any more; on_failure is not called afterwards.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  enum class Source { kPodLogs, kKubelet, kSlurm };
  // Reports first failures, until the completer is stopped.
  struct Reporter;
  static const char* Name(Source source);

  void NameByLogs(WorkloadIdentity* workload);
  void NameByGpus(const WorkloadQuestion& question, WorkloadIdentity* workload);
  // The one pod that has all GPUs. Unset if they belong to none, or to several:
  // `ambiguous`.
  static std::optional<PodName> OwnerOf(const std::vector<const GpuDevice*>& gpus,
                                        const DeviceTable& table, bool* ambiguous);
  void FindJob(const WorkloadQuestion& question, WorkloadIdentity* workload);
  // Counts each process once.
  void NoteAmbiguous(Source source, const ProcessId& process)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string node_;
  const bool kubelet_optional_;
  const std::shared_ptr<Reporter> reporter_;
  const std::shared_ptr<PodLogs> logs_;           // null: not asked
  const std::shared_ptr<KubeletClient> kubelet_;  // null: not asked
  const std::shared_ptr<JobMappings> jobs_;       // null: not asked
  std::unique_ptr<BackgroundRefresh> read_logs_, ask_kubelet_, read_jobs_;
  mutable absl::Mutex mutex_;
  std::map<Source, uint64_t> ambiguous_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<Source, ProcessId>> counted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_WORKLOAD_COMPLETER_H_
