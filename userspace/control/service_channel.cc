#include "userspace/control/service_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectToService(
    const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is too long for a socket"));
  }
  memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "socket() failed");
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
      0) {
    const bool denied = errno == EACCES || errno == EPERM;
    return absl::UnavailableError(absl::StrCat(
        "no answer at ", path, ": ", strerror(errno),
        denied ? "; sessions are for root and the user that runs the service"
               : "; is 'rocattach-watch --auto' running? --socket names another "
                 "place"));
  }
  // gRPC reads until there is nothing more: on a socket that waits, its threads hang.
  if (fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0) {
    return absl::ErrnoToStatus(errno, "fcntl(O_NONBLOCK) failed");
  }
  return grpc::CreateInsecureChannelFromFd("rocattach-watch", fd.release());
}

}  // namespace rocattach
