// How a conversion runs on behalf of a service.
#ifndef ROCATTACH_USERSPACE_CLI_SERVICE_HELPER_H_
#define ROCATTACH_USERSPACE_CLI_SERVICE_HELPER_H_

#include <sys/types.h>

#include "absl/status/status.h"

namespace rocattach {

// This process was started by `service`: it gets SIGTERM when that ends, gives up all
// privileges but that to write where the service may, and is limited so that it cannot
// take memory or processor time from what else runs on the machine. FAILED_PRECONDITION
// if `service` has ended already.
absl::Status BecomeHelperOf(pid_t service);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_SERVICE_HELPER_H_
