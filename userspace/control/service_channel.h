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

// Connects to the service at `path`. UNAVAILABLE, with a remedy, if none answers.
absl::StatusOr<UniqueFd> ConnectToSocket(const std::string& path);
// Makes a channel over it, which does not connect again when the service goes away.
std::shared_ptr<grpc::Channel> ChannelOver(UniqueFd socket);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_SERVICE_CHANNEL_H_
