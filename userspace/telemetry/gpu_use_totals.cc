#include "userspace/telemetry/gpu_use_totals.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "userspace/record/drain/dictionary.h"

namespace rocattach {
namespace {

void AddTo(const std::optional<uint64_t>& value, std::optional<uint64_t>* sum) {
  if (value.has_value()) *sum = sum->value_or(0) + *value;
}

uint64_t SeriesOf(const ProcessGpuUse& use) {
  return (use.vram_bytes().has_value() ? 1 : 0) + (use.sdma_us.has_value() ? 1 : 0) +
         (use.cu_occupancy.has_value() ? 1 : 0) + (use.evicted_ms.has_value() ? 1 : 0) +
         use.engine_ns.size();
}

uint64_t SeriesOf(const WorkloadUse& use) {
  return (use.vram_bytes.has_value() ? 1 : 0) + (use.sdma_us.has_value() ? 1 : 0) +
         (use.cu_occupancy.has_value() ? 1 : 0);
}

template <typename Gpus>
uint64_t SeriesOfAll(const Gpus& gpus) {
  uint64_t series = 0;
  for (const auto& [gpu, use] : gpus) series += SeriesOf(use);
  return series;
}

}  // namespace

GpuUseTotals::Key GpuUseTotals::KeyOf(const WorkloadIdentity& workload) {
  return {workload.pod_uid, workload.container_id, workload.slurm_job};
}

bool GpuUseTotals::IsKnown(const WorkloadIdentity& workload) {
  return !workload.pod_uid.empty() || !workload.container_id.empty() ||
         !workload.slurm_job.empty();
}

void GpuUseTotals::KeepEnded(const std::map<ProcessId, WorkloadIdentity>& workloads) {
  for (const ProcessUseSnapshot& process : processes_) {
    if (workloads.count(process.id) > 0 || !IsKnown(process.workload)) continue;
    Ended& ended = ended_[KeyOf(process.workload)];
    ended.last_ns = read_ns_;
    for (const auto& [gpu, use] : process.gpus) {
      if (use.sdma_us.has_value()) ended.sdma_us[gpu] += *use.sdma_us;
    }
  }
}

void GpuUseTotals::ForgetEnded(uint64_t now_ns) {
  for (const ProcessUseSnapshot& process : processes_) {
    const auto found = ended_.find(KeyOf(process.workload));
    if (found != ended_.end()) found->second.last_ns = now_ns;
  }
  std::erase_if(ended_, [&](const auto& ended) {
    return now_ns >= ended.second.last_ns + options_.keep_ns;
  });
  while (ended_.size() > options_.most_ended) {
    ended_.erase(std::min_element(ended_.begin(), ended_.end(),
                                  [](const auto& a, const auto& b) {
                                    return a.second.last_ns < b.second.last_ns;
                                  }));
  }
}

void GpuUseTotals::Update(GpuUsage usage,
                          const std::map<ProcessId, WorkloadIdentity>& workloads,
                          uint64_t now_ns) {
  std::map<ProcessId, WorkloadIdentity> known;
  for (const GpuProcess& process : usage.processes) {
    const auto found = workloads.find(process.id);
    known[process.id] = found == workloads.end() ? WorkloadIdentity() : found->second;
  }
  KeepEnded(known);
  devices_ = std::move(usage.devices);
  processes_.clear();
  for (GpuProcess& process : usage.processes) {
    WorkloadIdentity& workload = known[process.id];
    workload.executable = CleanText(workload.executable);
    processes_.push_back({process.id, CleanText(process.comm), process.uid,
                          std::move(workload), std::move(process.gpus)});
  }
  std::erase_if(refused_, [&](const ProcessId& id) { return known.count(id) == 0; });
  read_ns_ = now_ns;
  ForgetEnded(now_ns);
}

std::vector<WorkloadUseSnapshot> GpuUseTotals::SumWorkloads() const {
  std::map<Key, WorkloadUseSnapshot> sums;
  for (const ProcessUseSnapshot& process : processes_) {
    if (!IsKnown(process.workload)) continue;
    auto [found, is_new] = sums.try_emplace(KeyOf(process.workload));
    if (is_new) found->second.workload = process.workload;
    for (const auto& [gpu, use] : process.gpus) {
      WorkloadUse& sum = found->second.gpus[gpu];
      rocattach::AddTo(use.vram_bytes(), &sum.vram_bytes);
      rocattach::AddTo(use.cu_occupancy, &sum.cu_occupancy);
      rocattach::AddTo(use.sdma_us, &sum.sdma_us);
    }
  }
  std::vector<WorkloadUseSnapshot> workloads;
  for (auto& [key, sum] : sums) {
    if (const auto ended = ended_.find(key); ended != ended_.end()) {
      for (const auto& [gpu, sdma_us] : ended->second.sdma_us) {
        rocattach::AddTo(sdma_us, &sum.gpus[gpu].sdma_us);
      }
    }
    workloads.push_back(std::move(sum));
  }
  return workloads;
}

void GpuUseTotals::AddDevices(NodeSnapshot* snapshot) const {
  for (const GpuDevice& device : devices_) {
    GpuSnapshot& gpu = snapshot->gpus[device.key];
    gpu.gpu.key = device.key;
    gpu.gpu.uuid = device.uuid;
    gpu.gpu.pci = device.pci;
    if (gpu.gpu.architecture.empty()) gpu.gpu.architecture = device.architecture;
    if (!device.model.empty()) gpu.gpu.product_name = device.model;
    gpu.partition = device.partition;
    gpu.vram_bytes = device.vram_total_bytes;
    gpu.vram_used_bytes = device.vram_used_bytes;
    gpu.busy_percent = device.busy_percent;
    gpu.serial = device.serial;
    gpu.driver = device.driver;
  }
}

bool GpuUseTotals::HasRoom(uint64_t series, NodeSnapshot* snapshot) const {
  if (snapshot->series_limit < snapshot->series ||
      series > snapshot->series_limit - snapshot->series) {
    return false;
  }
  snapshot->series += series;
  return true;
}

void GpuUseTotals::AddTo(NodeSnapshot* snapshot, uint64_t now_ns) {
  if (read_ns_ == 0) return;
  snapshot->uses_age_ns = now_ns > read_ns_ ? now_ns - read_ns_ : 0;
  if (*snapshot->uses_age_ns > options_.most_age_ns) return;
  AddDevices(snapshot);
  // Workloads first: they are fewer, and queried most often.
  for (WorkloadUseSnapshot& workload : SumWorkloads()) {
    if (!HasRoom(SeriesOfAll(workload.gpus), snapshot)) break;
    snapshot->workload_uses.push_back(std::move(workload));
  }
  for (const ProcessUseSnapshot& process : processes_) {
    const uint64_t series = SeriesOfAll(process.gpus) + kProcessInfoSeries;
    if (HasRoom(series, snapshot)) {
      snapshot->uses.push_back(process);
    } else if (refused_.insert(process.id).second) {
      series_refused_ += series;
    }
  }
  snapshot->series_refused += series_refused_;
}

}  // namespace rocattach
