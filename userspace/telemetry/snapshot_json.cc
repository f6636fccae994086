#include "userspace/telemetry/snapshot_json.h"

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "userspace/base/clock.h"
#include "userspace/base/json.h"
#include "userspace/base/process.h"
#include "userspace/telemetry/metric_labels.h"

namespace rocattach {
namespace {

Json OperationsJson(const OperationTotals& totals) {
  return {{"dispatches", totals.dispatches}, {"time_ns", totals.time_ns}};
}

void AddKnown(const char* name, const std::optional<uint64_t>& value, Json* json) {
  if (value.has_value()) (*json)[name] = *value;
}

// Unknown values are omitted.
Json WorkloadJson(const WorkloadIdentity& workload) {
  Json json = Json::object();
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) json[name] = value;
  };
  add("executable", workload.executable);
  add("container_id", workload.container_id);
  add("container", workload.container);
  add("pod", workload.pod);
  add("pod_uid", workload.pod_uid);
  add("namespace", workload.kube_namespace);
  add("node", workload.node);
  add("job_id", workload.slurm_job);
  add("job_step", workload.slurm_step);
  add("job_array", workload.slurm_array_job);
  add("job_array_task", workload.slurm_array_task);
  return json;
}

Json KernelsJson(const ProcessSnapshot& process, Demangler* demangler) {
  Json kernels = Json::array();
  for (const KernelSnapshot& kernel : process.kernels) {
    Json entry = {{"id", KernelId(kernel.id)},
                  {"name", ShortName(kernel.name, demangler)}};
    entry.update(OperationsJson(kernel.totals));
    kernels.push_back(std::move(entry));
  }
  if (process.has_other_kernels && process.other_kernels.dispatches > 0) {
    Json entry = {{"id", "other"}};
    entry.update(OperationsJson(process.other_kernels));
    kernels.push_back(std::move(entry));
  }
  return kernels;
}

// The process's use of GPUs, from the kernel driver.
Json UseJson(const ProcessUseSnapshot& process) {
  Json uses = Json::array();
  for (const auto& [gpu, use] : process.gpus) {
    Json entry = {{"gpu", gpu}};
    AddKnown("vram_bytes", use.vram_bytes(), &entry);
    AddKnown("kfd_vram_bytes", use.kfd_vram_bytes, &entry);
    AddKnown("drm_vram_bytes", use.drm_vram_bytes, &entry);
    AddKnown("sdma_us", use.sdma_us, &entry);
    AddKnown("cu_occupancy", use.cu_occupancy, &entry);
    AddKnown("evicted_ms", use.evicted_ms, &entry);
    uses.push_back(std::move(entry));
  }
  return uses;
}

Json ProcessJson(const ProcessSnapshot& process, Demangler* demangler) {
  Json json = {{"pid", process.pid},
               {"start_ns", process.start_ns},
               {"comm", process.comm},
               {"uid", process.uid},
               {"workload", WorkloadJson(process.workload)},
               {"attached", true},
               {"ended", process.ended},
               {"dropped", process.dropped},
               {"sampled_out", process.sampled_out},
               {"gpus", Json::array()},
               {"copies", Json::array()},
               {"counters", Json::array()}};
  for (const auto& [gpu, totals] : process.gpus) {
    Json entry = {{"gpu", gpu}};
    entry.update(OperationsJson(totals));
    json["gpus"].push_back(std::move(entry));
  }
  for (const auto& [direction, totals] : process.copies) {
    json["copies"].push_back({{"direction", DirectionLabel(direction)},
                              {"copies", totals.copies},
                              {"bytes", totals.bytes},
                              {"time_ns", totals.time_ns}});
  }
  for (const auto& [key, totals] : process.counters) {
    json["counters"].push_back({{"gpu", key.first},
                                {"counter", key.second},
                                {"sum", totals.sum},
                                {"dispatches", totals.dispatches}});
  }
  json["kernels"] = KernelsJson(process, demangler);
  return json;
}

// A process that uses GPUs without being attached: its operations are not known.
Json OtherProcessJson(const ProcessUseSnapshot& process) {
  return {{"pid", process.id.pid},
          {"start_ns", process.id.start_ticks * ClockTickNs()},
          {"comm", process.comm},
          {"uid", process.uid},
          {"workload", WorkloadJson(process.workload)},
          {"attached", false},
          {"ended", false},
          {"dropped", 0},
          {"gpus", Json::array()},
          {"copies", Json::array()},
          {"counters", Json::array()},
          {"kernels", Json::array()},
          {"use", UseJson(process)}};
}

}  // namespace

std::string SnapshotJson(const NodeSnapshot& snapshot, Demangler* demangler) {
  Json json = {{"boot_ns", snapshot.boot_ns},
               {"dropped", snapshot.losses.sum()},
               {"sampled_out", snapshot.losses.sampled_out},
               {"sampling_ratio", snapshot.run.sampling.ratio()},
               {"series_refused", snapshot.series_refused},
               {"gpus", Json::array()},
               {"processes", Json::array()}};
  for (const auto& [key, gpu] : snapshot.gpus) {
    Json entry = {{"gpu", key},
                  {"architecture", gpu.gpu.architecture},
                  {"model", gpu.gpu.product_name},
                  {"counters", CounterOwnerName(gpu.owner)}};
    AddKnown("vram_bytes", gpu.vram_bytes, &entry);
    AddKnown("vram_used_bytes", gpu.vram_used_bytes, &entry);
    entry.update(OperationsJson(gpu.totals.operations));
    json["gpus"].push_back(std::move(entry));
  }
  std::map<ProcessId, const ProcessUseSnapshot*> uses;
  for (const ProcessUseSnapshot& use : snapshot.uses) uses[use.id] = &use;
  for (const ProcessSnapshot& process : snapshot.processes) {
    Json entry = ProcessJson(process, demangler);
    const auto found = uses.find(
        ProcessId::StartedAt(static_cast<pid_t>(process.pid), process.start_ns));
    if (found != uses.end()) {
      entry["use"] = UseJson(*found->second);
      uses.erase(found);
    }
    json["processes"].push_back(std::move(entry));
  }
  for (const auto& [id, use] : uses) {
    json["processes"].push_back(OtherProcessJson(*use));
  }
  return DumpJson(json);
}

}  // namespace rocattach
