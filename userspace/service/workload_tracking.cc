#include "userspace/service/workload_tracking.h"

#include <utility>

namespace rocattach {

WorkloadTracking::WorkloadTracking(const Options& options) {
  WorkloadSources sources = options.sources;
  sources.node = NodeName(sources.node, sources.pod_resources);
  sources.on_failure = options.on_failure;
  completer_ = std::make_unique<WorkloadCompleter>(std::move(sources));
  known_ = std::make_unique<KnownWorkloads>(options.found);
  WorkloadResolver::Options resolver;
  resolver.found = [known = known_.get()](const ProcessId& process,
                                          const WorkloadIdentity& workload) {
    known->AddFromWindow(process, workload);
  };
  resolver.complete = [completer = completer_.get()](const ProcessId& process,
                                                     WorkloadIdentity* workload) {
    return completer->Complete({.process = process}, workload);
  };
  resolver_ = std::make_unique<WorkloadResolver>(std::move(resolver));
  MonitorGpus(options);
}

void WorkloadTracking::MonitorGpus(const Options& options) {
  GpuMonitor::Options gpus;
  gpus.roots = options.gpu_roots;
  if (!options.all_gpu_processes && !completer_->needs_gpus()) gpus.everyone_every = 0;
  gpus.complete = [completer = completer_.get()](const WorkloadQuestion& question,
                                                 WorkloadIdentity* workload) {
    return completer->Complete(question, workload);
  };
  gpus.on_workload = [known = known_.get()](const ProcessId& process,
                                            const WorkloadIdentity& workload) {
    known->AddFromGpus(process, workload);
  };
  gpus.on_reading = options.on_reading;
  gpus.on_failure = options.on_failure;
  gpu_monitor_ = std::make_unique<GpuMonitor>(std::move(gpus));
}

void WorkloadTracking::AddTo(NodeSnapshot* snapshot) const {
  gpu_monitor_->AddTo(snapshot);
  for (const auto& [key, count] : completer_->failures()) {
    snapshot->source_failures[key] = count;
  }
}

bool WorkloadTracking::Stop(absl::Duration patience) {
  gpu_monitor_->Stop();
  const bool ended = resolver_->Stop(patience);
  completer_->Stop();
  return ended;
}

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
