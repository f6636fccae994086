#include "userspace/telemetry/gpu_use_families.h"

#include <optional>
#include <string>

#include "userspace/telemetry/growing_family.h"
#include "userspace/telemetry/metric_labels.h"

namespace rocattach {
namespace {

using prometheus::MetricType;

constexpr double kSecondsPerMicrosecond = 1e-6, kSecondsPerMillisecond = 1e-3,
                 kSecondsPerNanosecond = 1e-9;

double Scaled(uint64_t value, double factor) {
  return static_cast<double>(value) * factor;
}

void EmitDevices(const NodeSnapshot& node, FamilySink sink) {
  const auto emit = [&](const char* name, const char* help, auto value) {
    Family family(name, MetricType::Gauge, help, sink);
    for (const auto& [key, gpu] : node.gpus) {
      const std::optional<uint64_t> bytes = value(gpu);
      if (bytes.has_value()) family.Add({{"gpu", key}}, Scaled(*bytes, 1));
    }
  };
  emit("rocattach_gpu_vram_size_bytes", "Memory of the GPU.",
       [](const GpuSnapshot& gpu) { return gpu.vram_bytes; });
  emit("rocattach_gpu_vram_used_bytes",
       "Memory of the GPU that is in use, by all processes and the kernel.",
       [](const GpuSnapshot& gpu) { return gpu.vram_used_bytes; });
  Family busy("rocattach_gpu_busy_ratio", MetricType::Gauge,
              "How busy the GPU is, as its firmware says.", sink);
  for (const auto& [key, gpu] : node.gpus) {
    if (!gpu.busy_percent.has_value()) continue;
    busy.Add({{"gpu", key}}, static_cast<double>(*gpu.busy_percent) / 100);
  }
}

void EmitGpuProcesses(const NodeSnapshot& node, FamilySink sink) {
  {
    Family info("rocattach_process_info", MetricType::Gauge,
                "A process that uses GPUs; the other series of its pid belong to it.",
                sink);
    for (const ProcessUseSnapshot& p : node.uses) info.Add(InfoLabels(p), 1);
  }
  const auto emit = [&](const char* name, MetricType type, const char* help,
                        double factor, auto value) {
    Family family(name, type, help, sink);
    for (const ProcessUseSnapshot& p : node.uses) {
      for (const auto& [gpu, use] : p.gpus) {
        const std::optional<uint64_t> number = value(use);
        if (!number.has_value()) continue;
        family.Add(ProcessLabels(static_cast<uint32_t>(p.id.pid), p.comm, p.workload,
                                 {{"gpu", gpu}}),
                   Scaled(*number, factor));
      }
    }
  };
  emit("rocattach_process_gpu_memory_bytes", MetricType::Gauge,
       "Memory of the GPU that the process uses, as the kernel driver says.", 1,
       [](const ProcessGpuUse& use) { return use.vram_bytes(); });
  emit("rocattach_process_sdma_seconds_total", MetricType::Counter,
       "Time that copy engines have worked for the process, as the kernel driver says.",
       kSecondsPerMicrosecond, [](const ProcessGpuUse& use) { return use.sdma_us; });
  emit("rocattach_process_cu_occupancy", MetricType::Gauge,
       "Compute units that run waves of the process.", 1,
       [](const ProcessGpuUse& use) { return use.cu_occupancy; });
  emit("rocattach_process_evicted_seconds_total", MetricType::Counter,
       "Time that the process's queues were off the GPU for lack of memory.",
       kSecondsPerMillisecond, [](const ProcessGpuUse& use) { return use.evicted_ms; });
  Family engines("rocattach_process_drm_engine_seconds_total", MetricType::Counter,
                 "Time that engines have worked on what the process submitted through "
                 "DRM, which compute runtimes do not.",
                 sink);
  for (const ProcessUseSnapshot& p : node.uses) {
    for (const auto& [gpu, use] : p.gpus) {
      for (const auto& [engine, ns] : use.engine_ns) {
        engines.Add(ProcessLabels(static_cast<uint32_t>(p.id.pid), p.comm, p.workload,
                                  {{"gpu", gpu}, {"engine", engine}}),
                    Scaled(ns, kSecondsPerNanosecond));
      }
    }
  }
}

void EmitWorkloads(const NodeSnapshot& node, FamilySink sink) {
  const auto emit = [&](const char* name, MetricType type, const char* help,
                        double factor, auto value) {
    Family family(name, type, help, sink);
    for (const WorkloadUseSnapshot& w : node.workload_uses) {
      for (const auto& [gpu, use] : w.gpus) {
        const std::optional<uint64_t> number = value(use);
        if (!number.has_value()) continue;
        family.Add(WorkloadLabels(w.workload, {{"gpu", gpu}}), Scaled(*number, factor));
      }
    }
  };
  emit("rocattach_workload_gpu_memory_bytes", MetricType::Gauge,
       "Memory of the GPU that the processes of a container or job use.", 1,
       [](const WorkloadUse& use) { return use.vram_bytes; });
  emit("rocattach_workload_sdma_seconds_total", MetricType::Counter,
       "Time that copy engines have worked for the processes of a container or job.",
       kSecondsPerMicrosecond, [](const WorkloadUse& use) { return use.sdma_us; });
  emit("rocattach_workload_cu_occupancy", MetricType::Gauge,
       "Compute units that run waves of a container or job, summed over its processes.",
       1, [](const WorkloadUse& use) { return use.cu_occupancy; });
}

}  // namespace

void EmitGpuUse(const NodeSnapshot& node, FamilySink sink) {
  EmitDevices(node, sink);
  EmitGpuProcesses(node, sink);
  EmitWorkloads(node, sink);
  if (node.uses_age_ns.has_value()) {
    Family age("rocattach_gpu_use_age_seconds", MetricType::Gauge,
               "How long ago the kernel driver's files were read.", sink);
    age.Add({}, Scaled(*node.uses_age_ns, kSecondsPerNanosecond));
  }
  Family failures("rocattach_source_failures_total", MetricType::Counter,
                  "What could not be read to find GPUs, their use and workloads.",
                  sink);
  for (const auto& [key, count] : node.source_failures) {
    failures.Add({{"source", key.first}, {"reason", key.second}}, Scaled(count, 1));
  }
}

}  // namespace rocattach
