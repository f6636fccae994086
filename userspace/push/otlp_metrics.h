// A snapshot as metrics of the OpenTelemetry protocol.
#ifndef ROCATTACH_USERSPACE_PUSH_OTLP_METRICS_H_
#define ROCATTACH_USERSPACE_PUSH_OTLP_METRICS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "schemas/export/otlp_metrics.pb.h"
#include "userspace/base/clock.h"
#include "userspace/base/demangler.h"
#include "userspace/telemetry/self_usage.h"
#include "userspace/telemetry/snapshot.h"

namespace rocattach {

// The machine and the service as a resource.
struct OtlpService {
  std::vector<std::pair<std::string, std::string>> host;  // host.name and the like
  std::vector<std::pair<std::string, std::string>>
      service;            // service.name and the like
  uint64_t start_ns = 0;  // of the service, CLOCK_BOOTTIME
  // The same as wall time, by the clock of that moment. The start of a resource says
  // which sums belong together, so it stays when the clock is set.
  uint64_t start_wall_ns = 0;
};

// Reads them from the machine; `attributes` are added, or replace what was read. `now`
// is when the service has started.
OtlpService DescribeOtlpService(
    const std::vector<std::pair<std::string, std::string>>& attributes,
    const ClockSnapshot& now);

// Everything that /metrics has, by the rules of OpenTelemetry for metrics that come
// from Prometheus: names without _total, so that a backend that speaks
// Prometheus makes the names of /metrics of them again. The service is one resource,
// and each process is another: what labels say of a process there are attributes of its
// resource here. What is known of GPUs is reported as hw.gpu.* besides. Points have wall
// time by the clocks of `now`; no start is later than its point.
otlp::ExportMetricsServiceRequest OtlpMetrics(const NodeSnapshot& snapshot,
                                              const SelfUsage& self,
                                              const OtlpService& service,
                                              const ClockSnapshot& now,
                                              Demangler* demangler);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_OTLP_METRICS_H_
