// Where metrics come from, for all who show or send them.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_METRICS_SOURCE_H_
#define ROCATTACH_USERSPACE_TELEMETRY_METRICS_SOURCE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/telemetry/snapshot.h"

namespace rocattach {

// Called on any thread.
class MetricsSource {
 public:
  virtual ~MetricsSource() = default;
  // An error if the recorder does not answer in time.
  virtual absl::StatusOr<NodeSnapshot> Take(MetricsConsumer consumer) = 0;
  // The recorder answers.
  virtual absl::Status CheckAlive() = 0;
  // New processes are seen.
  virtual absl::Status CheckReady() = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_METRICS_SOURCE_H_
