// The address at which the service listens: ADDR:PORT from an option.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_LISTEN_ADDRESS_H_
#define ROCATTACH_USERSPACE_TELEMETRY_LISTEN_ADDRESS_H_

#include <sys/socket.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rocattach {

struct ListenAddress {
  sockaddr_storage address = {};
  socklen_t size = 0;

  bool loopback() const;
  std::string text() const;  // "127.0.0.1:9410", "[::1]:9410"
};

// "127.0.0.1:9410", "[::]:9410", ":9410" and "9410" (both on 127.0.0.1),
// "localhost:9410". Names are not resolved.
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_LISTEN_ADDRESS_H_
