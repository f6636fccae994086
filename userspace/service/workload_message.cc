#include "userspace/service/workload_message.h"

namespace rocattach {

v1::Workload WorkloadToProto(const WorkloadIdentity& workload) {
  v1::Workload message;
  message.set_container_id(workload.container_id);
  message.set_container(workload.container);
  message.set_pod(workload.pod);
  message.set_pod_uid(workload.pod_uid);
  message.set_kube_namespace(workload.kube_namespace);
  message.set_node(workload.node);
  message.set_slurm_job(workload.slurm_job);
  message.set_slurm_step(workload.slurm_step);
  message.set_slurm_array_job(workload.slurm_array_job);
  message.set_slurm_array_task(workload.slurm_array_task);
  return message;
}

}  // namespace rocattach
