#include "userspace/service/known_workloads.h"

#include <string>

namespace rocattach {
namespace {

// Newer values replace older ones, unless they are unknown.
void Merge(const WorkloadIdentity& now, WorkloadIdentity* known) {
  for (std::string WorkloadIdentity::*field :
       {&WorkloadIdentity::executable, &WorkloadIdentity::container_id,
        &WorkloadIdentity::container, &WorkloadIdentity::pod,
        &WorkloadIdentity::pod_uid, &WorkloadIdentity::kube_namespace,
        &WorkloadIdentity::node, &WorkloadIdentity::slurm_job,
        &WorkloadIdentity::slurm_step, &WorkloadIdentity::slurm_array_job,
        &WorkloadIdentity::slurm_array_task}) {
    if (!(now.*field).empty()) known->*field = now.*field;
  }
  if (now.cgroup_id != 0) known->cgroup_id = now.cgroup_id;
}

}  // namespace

void KnownWorkloads::AddFromWindow(const ProcessId& process,
                                   const WorkloadIdentity& workload) {
  Add(process, workload, /*has_window=*/true);
}

void KnownWorkloads::AddFromGpus(const ProcessId& process,
                                 const WorkloadIdentity& workload) {
  Add(process, workload, /*has_window=*/false);
}

void KnownWorkloads::Add(const ProcessId& process, const WorkloadIdentity& workload,
                         bool has_window) {
  absl::MutexLock lock(&mutex_);
  auto [found, is_new] = entries_.try_emplace(process);
  Entry& entry = found->second;
  if (is_new) entry.place = order_.insert(order_.end(), process);
  const WorkloadIdentity before = entry.workload;
  Merge(workload, &entry.workload);
  // The process may have executed another program since its GPUs were first looked at.
  if (!has_window && !before.executable.empty()) {
    entry.workload.executable = before.executable;
  }
  const bool first = has_window && !entry.published;
  entry.published = entry.published || has_window;
  if (first || (entry.published && !(entry.workload == before))) {
    publish_(process, entry.workload);
  }
  if (order_.size() <= kMost) return;
  entries_.erase(order_.front());
  order_.pop_front();
}

}  // namespace rocattach
