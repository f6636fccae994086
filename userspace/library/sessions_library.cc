// The default runner of the installed library: a service on this machine.
#include <stdlib.h>

#include <memory>

#include "userspace/control/remote_runner.h"
#include "userspace/control/service_channel.h"
#include "userspace/library/sessions_c_api.h"

namespace rocattach {

std::shared_ptr<SessionRunner> DefaultSessionRunner() {
  // Not for set-user-ID programs: their callers could choose the service.
  const char* socket = secure_getenv("ROCATTACH_SOCKET");
  return std::make_shared<RemoteRunner>(
      socket != nullptr && socket[0] != '\0' ? socket : kDefaultControlSocket);
}

}  // namespace rocattach
