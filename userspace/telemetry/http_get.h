// Reads a page of the service, for its own clients.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_HTTP_GET_H_
#define ROCATTACH_USERSPACE_TELEMETRY_HTTP_GET_H_

#include <string>

#include "absl/status/statusor.h"
#include "userspace/telemetry/listen_address.h"

namespace rocattach {

// The body of the page if its status is 200. The error is that of errno if the service
// cannot be reached, else the service's answer. Each step may take five seconds.
absl::StatusOr<std::string> HttpGet(const ListenAddress& server,
                                    const std::string& path);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_HTTP_GET_H_
