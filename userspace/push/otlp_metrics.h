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

// The machine and the service, as a resource.
struct OtlpService {
  std::vector<std::pair<std::string, std::string>> host;  // host.name and the like
  std::vector<std::pair<std::string, std::string>>
      service;            // service.name and the like
  uint64_t start_ns = 0;  // start of the service, CLOCK_BOOTTIME
  // The same as wall time, by the clock at that moment. The start of a resource shows
  // which sums belong together, so it must not change when the clock is set.
  uint64_t start_wall_ns = 0;
};

// Reads the attributes from the machine; `attributes` are added, or replace those that
// were read. `now` is the start of the service.
OtlpService DescribeOtlpService(
    const std::vector<std::pair<std::string, std::string>>& attributes,
    const ClockSnapshot& now);

// Everything in /metrics, by OpenTelemetry's rules for metrics that come from
// Prometheus: names have no _total, so that a backend for Prometheus restores the names
// of /metrics. The service is one resource, and each process is another: the labels of
// a process in /metrics are attributes of its resource here. In addition, data on GPUs
// is reported as hw.gpu.*. Points have wall time by the clocks of `now`; no start is
// later than its point.
otlp::ExportMetricsServiceRequest OtlpMetrics(const NodeSnapshot& snapshot,
                                              const SelfUsage& self,
                                              const OtlpService& service,
                                              const ClockSnapshot& now,
                                              Demangler* demangler);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_OTLP_METRICS_H_
