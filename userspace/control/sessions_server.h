// The socket of a running service, where schemas/sessions.proto is answered.
#ifndef ROCATTACH_USERSPACE_CONTROL_SESSIONS_SERVER_H_
#define ROCATTACH_USERSPACE_CONTROL_SESSIONS_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "userspace/service/process_history.h"
#include "userspace/service/session_service.h"

namespace rocattach {

class SessionsServer {
 public:
  // Answers at `path` from now on. `sessions` and `history` must outlive the server; a
  // null `history` counts as empty. `output` is the name of the run's recording, for
  // status requests.
  static absl::StatusOr<std::unique_ptr<SessionsServer>> Start(
      const std::string& path, SessionService* sessions, std::string output,
      const ProcessHistory* history = nullptr);
  ~SessionsServer();
  SessionsServer(const SessionsServer&) = delete;
  SessionsServer& operator=(const SessionsServer&) = delete;

 private:
  struct Parts;
  explicit SessionsServer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_SESSIONS_SERVER_H_
