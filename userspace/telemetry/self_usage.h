// What the service itself uses.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_SELF_USAGE_H_
#define ROCATTACH_USERSPACE_TELEMETRY_SELF_USAGE_H_

#include <cstdint>

namespace rocattach {

struct SelfUsage {
  double cpu_seconds = 0;  // user and system time of all threads
  uint64_t resident_bytes = 0;
  double start_time_seconds = 0;  // since the epoch
  // Of the endpoint for metrics.
  uint64_t connections_refused = 0, requests = 0;
};

// All but the endpoint's part.
SelfUsage ReadSelfUsage();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_SELF_USAGE_H_
