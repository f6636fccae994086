// The default runner of the installed library: a service on this machine.
#include <memory>

#include "userspace/base/deadlock_checks.h"
#include "userspace/control/service_channel.h"
#include "userspace/library/remote_runner.h"
#include "userspace/library/sessions_state.h"

namespace rocattach {

std::shared_ptr<SessionRunner> DefaultSessionRunner() {
  IgnorePotentialDeadlocks();
  return std::make_shared<RemoteRunner>(ControlSocket());
}

}  // namespace rocattach
