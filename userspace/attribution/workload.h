// Whose a process is, in the terms of the machine, of Kubernetes and of Slurm.
#ifndef ROCATTACH_USERSPACE_ATTRIBUTION_WORKLOAD_H_
#define ROCATTACH_USERSPACE_ATTRIBUTION_WORKLOAD_H_

#include <cstdint>
#include <string>

namespace rocattach {

// What is not known, or does not apply, is empty: outputs omit it. All of it describes
// the process at its window, and may be completed later, also after its end.
struct WorkloadIdentity {
  std::string executable;    // path as the process sees it
  std::string container_id;  // as the container runtime calls it, without a prefix
  std::string container;     // name of the container within its pod
  std::string pod;
  std::string pod_uid;
  std::string kube_namespace;  // of the pod
  std::string node;
  std::string slurm_job;   // a number, for a part of a job array its own
  std::string slurm_step;  // a number, or "batch", "extern", "interactive"
  // Numbers, of a part of a job array only, as the process's environment says.
  std::string slurm_array_job;
  std::string slurm_array_task;
  uint64_t cgroup_id = 0;  // in the unified hierarchy; 0: unknown

  bool operator==(const WorkloadIdentity&) const = default;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_WORKLOAD_H_
