// The workload of a process, from the names of its control groups.
#ifndef ROCATTACH_USERSPACE_ATTRIBUTION_CGROUP_WORKLOAD_H_
#define ROCATTACH_USERSPACE_ATTRIBUTION_CGROUP_WORKLOAD_H_

#include "absl/strings/string_view.h"
#include "userspace/attribution/workload.h"

namespace rocattach {

// Fills in container_id, pod_uid, slurm_job and slurm_step from the text of
// /proc/PID/cgroup, as far as they are in it; other fields are unchanged. Knows
// Docker, containerd, CRI-O and Podman with the systemd and the cgroupfs driver,
// systemd-nspawn and LXC (whose containers have names), the kubelet, and Slurm, in the
// unified hierarchy (preferred) and the older ones.
//
// The outermost of nested groups is used, because the process itself may have created
// those below: a container in a container is attributed to the outer one. The container
// of a pod is the first one below the pod's group. Pods and jobs below user.slice,
// where users make groups of their own, are ignored.
void FillFromCgroups(absl::string_view text, WorkloadIdentity* workload);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_CGROUP_WORKLOAD_H_
