// Sessions of this program that a running rocattach-watch executes.
#ifndef ROCATTACH_USERSPACE_LIBRARY_REMOTE_RUNNER_H_
#define ROCATTACH_USERSPACE_LIBRARY_REMOTE_RUNNER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "userspace/control/service_connection.h"
#include "userspace/library/own_sessions.h"
#include "userspace/session/session_runner.h"

namespace rocattach {

class RemoteRunner : public SessionRunner {
 public:
  // Does not connect before the first call.
  explicit RemoteRunner(std::string socket)
      : connection_(
            std::make_shared<ServiceConnection>(std::move(socket), /*reopens=*/true)),
        own_(std::make_shared<OwnSessions>()) {}

  absl::Status Connect() override;
  absl::Status CheckFilter(const FilterSpec& filter) override;
  absl::StatusOr<ProcessId> FindTarget(pid_t pid) override;
  std::shared_ptr<SessionRun> NewRun(RunSpec spec) override;
  absl::StatusOr<std::string> CheckDevice(const std::vector<std::string>& counters,
                                          int gpu_index) override;
  absl::StatusOr<std::shared_ptr<DeviceRun>> StartDevice(
      SessionId session, const std::vector<std::string>& counters,
      const std::string& gpu_key) override;

 private:
  const std::shared_ptr<ServiceConnection> connection_;
  const std::shared_ptr<OwnSessions> own_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_REMOTE_RUNNER_H_
