#include "userspace/telemetry/metric_labels.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "userspace/record/drain/dictionary.h"

namespace rocattach {
namespace {

constexpr size_t kMostNameBytes = 200;

void AddKnown(const char* name, const std::string& value, MetricLabels* labels) {
  if (!value.empty()) labels->push_back({name, value});
}

void AddDetails(const WorkloadIdentity& workload, MetricLabels* labels) {
  AddKnown("executable", workload.executable, labels);
  AddKnown("container_id", workload.container_id, labels);
  AddKnown("pod_uid", workload.pod_uid, labels);
  AddKnown("node", workload.node, labels);
  AddKnown("job_step", workload.slurm_step, labels);
  AddKnown("job_array", workload.slurm_array_job, labels);
  AddKnown("job_array_task", workload.slurm_array_task, labels);
}

}  // namespace

MetricLabels ProcessLabels(uint32_t pid, const std::string& comm,
                           const WorkloadIdentity& workload, MetricLabels more) {
  MetricLabels labels;
  labels.reserve(6 + more.size());
  labels.push_back({"pid", absl::StrCat(pid)});
  AddKnown("comm", comm, &labels);
  AddKnown("namespace", workload.kube_namespace, &labels);
  AddKnown("pod", workload.pod, &labels);
  AddKnown("container", workload.container, &labels);
  AddKnown("job_id", workload.slurm_job, &labels);
  std::move(more.begin(), more.end(), std::back_inserter(labels));
  return labels;
}

MetricLabels ProcessLabels(const ProcessSnapshot& process, MetricLabels more) {
  return ProcessLabels(process.pid, process.comm, process.workload, std::move(more));
}

MetricLabels WorkloadLabels(const WorkloadIdentity& workload, MetricLabels more) {
  MetricLabels labels;
  AddKnown("namespace", workload.kube_namespace, &labels);
  AddKnown("pod", workload.pod, &labels);
  AddKnown("container", workload.container, &labels);
  AddKnown("pod_uid", workload.pod_uid, &labels);
  AddKnown("container_id", workload.container_id, &labels);
  AddKnown("job_id", workload.slurm_job, &labels);
  std::move(more.begin(), more.end(), std::back_inserter(labels));
  return labels;
}

MetricLabels InfoLabels(const ProcessSnapshot& process) {
  MetricLabels labels = ProcessLabels(process);
  labels.push_back({"uid", absl::StrCat(process.uid)});
  labels.push_back({"state", process.ended ? "ended" : "running"});
  AddDetails(process.workload, &labels);
  if (process.start_wall_ns != 0) {
    labels.push_back({"start_time", WallTimeText(process.start_wall_ns)});
  }
  AddKnown("rocm", process.rocm, &labels);
  return labels;
}

MetricLabels InfoLabels(const ProcessUseSnapshot& process) {
  MetricLabels labels = ProcessLabels(static_cast<uint32_t>(process.id.pid),
                                      process.comm, process.workload);
  labels.push_back({"uid", absl::StrCat(process.uid)});
  AddDetails(process.workload, &labels);
  return labels;
}

MetricLabels GpuLabels(const std::string& key, const GpuSnapshot& gpu) {
  MetricLabels labels = {{"gpu", key}};
  AddKnown("uuid", gpu.gpu.uuid, &labels);
  AddKnown("pci_bdf", gpu.gpu.pci, &labels);
  AddKnown("gfx", gpu.gpu.architecture, &labels);
  AddKnown("model", gpu.gpu.product_name, &labels);
  AddKnown("driver", gpu.driver, &labels);
  if (gpu.partition.has_value()) {
    labels.push_back({"partition", absl::StrCat(*gpu.partition)});
  }
  return labels;
}

std::string WallTimeText(uint64_t wall_ns) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ",
                          absl::FromUnixNanos(static_cast<int64_t>(wall_ns)),
                          absl::UTCTimeZone());
}

std::string KernelId(uint64_t id) {
  return absl::StrFormat("%016x", id);
}

std::string ShortName(const std::string& mangled, Demangler* demangler) {
  std::string name = demangler->Demangle(mangled);
  if (name.size() <= kMostNameBytes) return name;
  // CleanText() replaces a character that was cut.
  return CleanText(name.substr(0, kMostNameBytes - 3)) + "...";
}

const char* CounterOwnerName(CounterOwner owner) {
  switch (owner) {
    case CounterOwner::kExternal:
      return "external";
    case CounterOwner::kDaemon:
      return "daemon";
    case CounterOwner::kUser:
      return "user";
    default:
      return "none";
  }
}

const char* DirectionLabel(size_t direction) {
  static constexpr const char* kNames[] = {"unknown", "host_to_host", "host_to_device",
                                           "device_to_host", "device_to_device"};
  return kNames[std::min(direction, std::size(kNames) - 1)];
}

}  // namespace rocattach
