// Connects to a running rocattach-watch.
#ifndef ROCATTACH_USERSPACE_CONTROL_SERVICE_CHANNEL_H_
#define ROCATTACH_USERSPACE_CONTROL_SERVICE_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// The default socket of a service.
inline constexpr char kDefaultControlSocket[] = "/run/rocattach/control.sock";

// The socket to use if the user names none: ROCATTACH_SOCKET if it is set, else the
// default. Set-user-ID programs ignore the variable: a caller could choose the service.
std::string ControlSocket();

// Connects to the service at `path`; errors as below.
absl::StatusOr<UniqueFd> ConnectToSocket(const std::string& path);
// Makes a channel over it, which does not connect again when the service goes away.
std::shared_ptr<grpc::Channel> ChannelOver(UniqueFd socket);

// UNAVAILABLE, with a remedy, if no service answers at `path`. The channel does not
// connect again when the service goes away.
absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectToService(
    const std::string& path);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_SERVICE_CHANNEL_H_
