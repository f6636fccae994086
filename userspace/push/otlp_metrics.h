// A snapshot as metrics of the OpenTelemetry protocol.
#ifndef ROCATTACH_USERSPACE_PUSH_OTLP_METRICS_H_
#define ROCATTACH_USERSPACE_PUSH_OTLP_METRICS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "schemas/export/otlp_metrics.pb.h"
#include "userspace/base/demangler.h"
#include "userspace/telemetry/self_usage.h"
#include "userspace/telemetry/snapshot.h"

namespace rocattach {

// The machine and the service as a resource, and how times of a snapshot relate to
// wall time.
struct OtlpService {
  std::vector<std::pair<std::string, std::string>> host;  // host.name and the like
  std::vector<std::pair<std::string, std::string>>
      service;  // service.name and the like
  // Wall time minus CLOCK_BOOTTIME, nanoseconds.
  int64_t realtime_offset_ns = 0;
  uint64_t start_ns = 0;  // of the service, CLOCK_BOOTTIME
};

// Reads them from the machine; `attributes` are added, or replace what was read.
OtlpService DescribeOtlpService(
    const std::vector<std::pair<std::string, std::string>>& attributes);

// Everything that /metrics has, by the rules of OpenTelemetry for metrics that come
// from Prometheus: names without _total, so that a backend that speaks
// Prometheus makes the names of /metrics of them again. The service is one resource,
// and each process is another: what labels say of a process there are attributes of its
// resource here. Memory of GPUs is reported as hw.gpu.memory.* besides.
otlp::ExportMetricsServiceRequest OtlpMetrics(const NodeSnapshot& snapshot,
                                              const SelfUsage& self,
                                              const OtlpService& service,
                                              Demangler* demangler);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_OTLP_METRICS_H_
