// Resources that the service itself uses.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_SELF_USAGE_H_
#define ROCATTACH_USERSPACE_TELEMETRY_SELF_USAGE_H_

#include <cstdint>

namespace rocattach {

struct SelfUsage {
  double cpu_seconds = 0;  // user and system time of all threads
  uint64_t resident_bytes = 0;
  double start_time_seconds = 0;  // since the epoch
  // Counts of the metrics endpoint.
  uint64_t connections_refused = 0, requests = 0;
};

// Everything except the counts of the endpoint.
SelfUsage ReadSelfUsage();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_SELF_USAGE_H_
