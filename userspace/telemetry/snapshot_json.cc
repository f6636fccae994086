#include "userspace/telemetry/snapshot_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "userspace/telemetry/metric_labels.h"

namespace rocattach {
namespace {

using Json = nlohmann::ordered_json;

Json OperationsJson(const OperationTotals& totals) {
  return {{"dispatches", totals.dispatches}, {"time_ns", totals.time_ns}};
}

// What is not known is not there.
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

Json ProcessJson(const ProcessSnapshot& process, Demangler* demangler) {
  Json json = {{"pid", process.pid},
               {"start_ns", process.start_ns},
               {"comm", process.comm},
               {"uid", process.uid},
               {"workload", WorkloadJson(process.workload)},
               {"ended", process.ended},
               {"dropped", process.dropped},
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

}  // namespace

std::string SnapshotJson(const NodeSnapshot& snapshot, Demangler* demangler) {
  Json json = {{"boot_ns", snapshot.boot_ns},
               {"dropped", snapshot.losses.sum()},
               {"series_refused", snapshot.series_refused},
               {"gpus", Json::array()},
               {"processes", Json::array()}};
  for (const auto& [key, gpu] : snapshot.gpus) {
    Json entry = {{"gpu", key},
                  {"architecture", gpu.gpu.architecture},
                  {"model", gpu.gpu.product_name},
                  {"counters", gpu.counted ? "session" : "none"}};
    entry.update(OperationsJson(gpu.totals.operations));
    json["gpus"].push_back(std::move(entry));
  }
  for (const ProcessSnapshot& process : snapshot.processes) {
    json["processes"].push_back(ProcessJson(process, demangler));
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace rocattach
