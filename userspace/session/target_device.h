// Device sessions: a GPU's counters, sampled through one of the processes that see it.
#ifndef ROCATTACH_USERSPACE_SESSION_TARGET_DEVICE_H_
#define ROCATTACH_USERSPACE_SESSION_TARGET_DEVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/session/compiled_plan.h"
#include "userspace/session/session_runner.h"
#include "userspace/session/target_owners.h"

namespace rocattach {

class DeviceSums;

// The counters of a GPU count what all processes do on it; the process through which
// they are read only provides access to the driver, and cannot be in another session
// meanwhile.
class TargetDevice : public DeviceRun {
 public:
  // Period at which the process reads the counters: Poll waits for the next reading.
  static constexpr uint64_t kIntervalNs = 5'000'000;

  // As SessionRunner::CheckDevice. GPUs are numbered as in the attached process that
  // sees most of them; those that only others see follow.
  static absl::StatusOr<std::string> Check(TargetOwners& owners,
                                           const std::vector<std::string>& counters,
                                           int gpu_index);
  static absl::StatusOr<std::shared_ptr<DeviceRun>> Start(
      const std::shared_ptr<TargetOwners>& owners, SessionId session,
      const std::vector<std::string>& counters, const std::string& gpu_key);

  TargetDevice(std::shared_ptr<TargetOwners> owners, SessionId session,
               ProcessId target, std::vector<std::string> counters,
               std::shared_ptr<const CompiledPlan> plan);
  absl::StatusOr<std::vector<double>> Poll() override;
  absl::Status Stop() override;

 private:
  absl::Status Begin();

  const std::shared_ptr<TargetOwners> owners_;
  const SessionId session_;
  const ProcessId target_;
  const std::vector<std::string> counters_;
  const std::shared_ptr<const CompiledPlan> plan_;
  const std::shared_ptr<DeviceSums> sums_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_TARGET_DEVICE_H_
