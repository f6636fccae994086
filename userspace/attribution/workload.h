// The workload of a process, in terms of the machine, of Kubernetes and of Slurm.
#ifndef ROCATTACH_USERSPACE_ATTRIBUTION_WORKLOAD_H_
#define ROCATTACH_USERSPACE_ATTRIBUTION_WORKLOAD_H_

#include <cstdint>
#include <string>

namespace rocattach {

// Fields that are unknown or do not apply are empty: outputs omit them. All describe
// the process at its window, and may be completed later, even after its end.
struct WorkloadIdentity {
  std::string executable;    // path as the process sees it
  std::string container_id;  // the container runtime's ID, without a prefix
  std::string container;     // name of the container within its pod
  std::string pod;
  std::string pod_uid;
  std::string kube_namespace;  // the pod's
  std::string node;
  std::string slurm_job;   // a number; each task of a job array has its own
  std::string slurm_step;  // a number, or "batch", "extern", "interactive"
  // Numbers, only for a task of a job array, from the process's environment.
  std::string slurm_array_job;
  std::string slurm_array_task;
  uint64_t cgroup_id = 0;  // in the unified hierarchy; 0: unknown

  bool operator==(const WorkloadIdentity&) const = default;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_WORKLOAD_H_
