// The source of metrics, for all that show or send them.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_METRICS_SOURCE_H_
#define ROCATTACH_USERSPACE_TELEMETRY_METRICS_SOURCE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/telemetry/snapshot.h"

namespace rocattach {

// Functions may be called on any thread.
class MetricsSource {
 public:
  virtual ~MetricsSource() = default;
  // Fails if the recorder does not answer in time.
  virtual absl::StatusOr<NodeSnapshot> CaptureSnapshot(MetricsConsumer consumer) = 0;
  // OK if the recorder answers.
  virtual absl::Status CheckAlive() = 0;
  // OK if new processes are seen.
  virtual absl::Status CheckReady() = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_METRICS_SOURCE_H_
