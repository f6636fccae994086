#include "userspace/control/service_channel.h"

#include <errno.h>
#include <grpcpp/create_channel_posix.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"

namespace rocattach {

namespace {

constexpr int kConnectTries = 50;
constexpr long kConnectPauseNs = 100'000'000;

// 0, or an errno. Retries while the queue of connections is full.
int Connect(int fd, const sockaddr_un& address) {
  for (int i = 0;; ++i) {
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
        0) {
      return 0;
    }
    if (errno != EAGAIN && errno != EINTR) return errno;
    if (i == kConnectTries) return EAGAIN;
    const timespec pause = {0, kConnectPauseNs};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace

std::string ControlSocket() {
  const char* socket = secure_getenv("ROCATTACH_SOCKET");
  return socket != nullptr && *socket != '\0' ? socket : kDefaultControlSocket;
}

absl::StatusOr<UniqueFd> ConnectToSocket(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is too long for a socket"));
  }
  memcpy(address.sun_path, path.c_str(), path.size() + 1);
  // gRPC reads until there is no more data: on a blocking socket, its threads would
  // hang. And with a full queue of connections, connect() would wait forever.
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "socket() failed");
  if (const int error = Connect(fd.get(), address); error != 0) {
    const bool denied = error == EACCES || error == EPERM;
    return absl::UnavailableError(absl::StrCat(
        "no answer at ", path, ": ",
        error == EAGAIN ? "its queue of connections stays full" : strerror(error),
        denied ? "; sessions are for root and the user that runs the service"
               : "; is 'rocattach-watch --auto' running? --socket or "
                 "ROCATTACH_SOCKET names another place"));
  }
  return fd;
}

std::shared_ptr<grpc::Channel> ChannelOver(UniqueFd socket) {
  return grpc::CreateInsecureChannelFromFd("rocattach-watch", socket.release());
}

}  // namespace rocattach
