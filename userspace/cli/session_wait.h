// Waiting for the end of a session.
#ifndef ROCATTACH_USERSPACE_CLI_SESSION_WAIT_H_
#define ROCATTACH_USERSPACE_CLI_SESSION_WAIT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "userspace/cli/terminal/enter_key.h"
#include "userspace/control/service_connection.h"

namespace rocattach {

class SessionWait {
 public:
  // Create it before the session starts, so that an early Ctrl-C stops the session too:
  // if `wanted`, the first SIGINT, SIGTERM or SIGHUP is kept for UntilEnd; a second one
  // ends the program.
  SessionWait(ServiceConnection* service, bool wanted);

  bool watching_keys() const { return enter_.watching(); }

  // Returns when the session is over: by itself, or because it was stopped here by
  // Enter or a signal.
  absl::Status UntilEnd(uint64_t session);

 private:
  // True if the service reports that the session is over.
  absl::StatusOr<bool> Over(uint64_t session);

  ServiceConnection* service_;
  EnterKey enter_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_SESSION_WAIT_H_
