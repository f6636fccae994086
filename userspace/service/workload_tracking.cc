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
    known->NoteOfWindow(process, workload);
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
    known->NoteOfGpus(process, workload);
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

}  // namespace rocattach
