// The service's side of schemas/control.proto.
#ifndef ROCATTACH_USERSPACE_CONTROL_CONTROL_SERVER_H_
#define ROCATTACH_USERSPACE_CONTROL_CONTROL_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "userspace/service/process_history.h"
#include "userspace/service/session_service.h"

namespace rocattach {

class ControlServer {
 public:
  // Answers at `path` from now on. `sessions` and `history` must outlive the server; a
  // null `history` counts as empty. `output` is the name of the run's recording, for
  // status requests.
  static absl::StatusOr<std::unique_ptr<ControlServer>> Start(
      const std::string& path, SessionService* sessions, std::string output,
      const ProcessHistory* history = nullptr);
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

 private:
  struct Parts;
  explicit ControlServer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_CONTROL_SERVER_H_
