// How pushes of metrics went.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_PUSH_COUNTS_H_
#define ROCATTACH_USERSPACE_TELEMETRY_PUSH_COUNTS_H_

#include <atomic>
#include <cstdint>

namespace rocattach {

struct PushCounts {
  std::atomic<uint64_t> accepted = 0;  // requests
  std::atomic<uint64_t> failed = 0;    // requests: refused, or without an answer
  // Data points of accepted requests that the collector did not take.
  std::atomic<uint64_t> rejected_points = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_PUSH_COUNTS_H_
