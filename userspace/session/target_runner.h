// Runs sessions on the processes of a SessionBackend.
#ifndef ROCATTACH_USERSPACE_SESSION_TARGET_RUNNER_H_
#define ROCATTACH_USERSPACE_SESSION_TARGET_RUNNER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "userspace/counters/catalog.h"
#include "userspace/session/session_backend.h"
#include "userspace/session/session_runner.h"
#include "userspace/session/target_owners.h"
#include "userspace/session/target_run.h"

namespace rocattach {

class TargetRunner : public SessionRunner {
 public:
  TargetRunner(std::shared_ptr<SessionBackend> backend,
               std::shared_ptr<const CounterCatalog> catalog);

  absl::Status CheckFilter(const FilterSpec& filter) override;
  absl::StatusOr<ProcessId> FindTarget(pid_t pid) override;
  std::shared_ptr<SessionRun> NewRun(RunSpec spec) override {
    return NewTargetRun(std::move(spec));
  }
  std::shared_ptr<TargetRun> NewTargetRun(RunSpec spec);
  // A process became ready: the session for all processes starts there, if one is
  // active.
  void Arrived(ProcessId target);
  absl::StatusOr<std::string> CheckDevice(const std::vector<std::string>& counters,
                                          int gpu_index) override;
  absl::StatusOr<std::shared_ptr<DeviceRun>> StartDevice(
      SessionId session, const std::vector<std::string>& counters,
      const std::string& gpu_key) override;

 private:
  const std::shared_ptr<TargetOwners> owners_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_TARGET_RUNNER_H_
