#include "userspace/control/socket_listener.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// Pause before the next connection is accepted if descriptors or memory are lacking.
constexpr int kScarceMsec = 100;

absl::StatusOr<sockaddr_un> Address(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("socket ", path, ": the path must have 1 to ",
                     sizeof(address.sun_path) - 1, " characters"));
  }
  memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

bool IsSameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Removes the socket of a service that is gone: a socket of our own user on which no
// process listens. Anything else is in use.
absl::Status RemoveLeftover(const std::string& path, const sockaddr_un& address) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode)) {
    return absl::AlreadyExistsError(absl::StrCat(path, " exists and is not a socket"));
  }
  if (info.st_uid != geteuid()) {
    return absl::AlreadyExistsError(
        absl::StrCat("the socket ", path, " belongs to user ", info.st_uid,
                     "; remove it, or choose another with --socket"));
  }
  // Non-blocking: with a full queue of connections, connect() would wait.
  UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.valid()) return ErrnoStatus(errno, "socket() failed");
  const int connected = connect(
      probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int error = errno;
  if (connected == 0 || error == EAGAIN) {
    return absl::AlreadyExistsError(
        absl::StrCat("another program listens at ", path,
                     "; end it, or choose another place with --socket"));
  }
  if (error != ECONNREFUSED) {  // EPROTOTYPE: another kind of socket, in use
    return absl::AlreadyExistsError(
        absl::StrCat("the socket ", path, " is not one that rocattach-watch left (",
                     strerror(error), "); choose another with --socket"));
  }
  // Check that it has not been replaced meanwhile.
  struct stat now;
  if (lstat(path.c_str(), &now) != 0) return absl::OkStatus();
  if (!IsSameFile(info, now)) {
    return absl::AlreadyExistsError(
        absl::StrCat("another program has just made the socket ", path));
  }
  if (unlink(path.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot remove ", path));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsTrustedPeer(uid_t peer, uid_t self) {
  return peer == 0 || peer == self;
}

bool OpenConnections::Add(int fd, pid_t peer) {
  ForgetClosed();
  struct stat info;
  if (fstat(fd, &info) != 0) return false;
  const auto of_peer =
      std::count_if(connections_.begin(), connections_.end(),
                    [peer](const Connection& other) { return other.peer == peer; });
  if (connections_.size() >= kMost || static_cast<size_t>(of_peer) >= kMostOfProcess) {
    return false;
  }
  connections_.push_back({fd, info.st_ino, peer});
  return true;
}

void OpenConnections::ForgetClosed() {
  const auto closed = [](const Connection& connection) {
    struct stat info;
    return fstat(connection.fd, &info) != 0 || !S_ISSOCK(info.st_mode) ||
           info.st_ino != connection.inode;
  };
  connections_.erase(std::remove_if(connections_.begin(), connections_.end(), closed),
                     connections_.end());
}

absl::StatusOr<std::unique_ptr<SocketListener>> SocketListener::Listen(
    const std::string& path, std::function<void(UniqueFd)> accepted) {
  ASSIGN_OR_RETURN(const sockaddr_un address, Address(path));
  const size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0) {
    RETURN_IF_ERROR(MakeDirectories(path.substr(0, slash), 0755));
  }
  RETURN_IF_ERROR(RemoveLeftover(path, address));
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "socket() failed");
  // On Linux the file gets the socket's mode as soon as it is created.
  if (fchmod(fd.get(), 0600) != 0) return ErrnoStatus(errno, "fchmod() failed");
  const mode_t before = umask(0177);
  const int bound =
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int error = errno;
  umask(before);
  if (bound != 0) return ErrnoStatus(error, absl::StrCat("cannot bind ", path));
  struct stat made;
  if (lstat(path.c_str(), &made) != 0) {
    return ErrnoStatus(errno, absl::StrCat("lstat(", path, ") failed"));
  }
  if (listen(fd.get(), 16) != 0) return ErrnoStatus(errno, "listen() failed");
  UniqueFd stop_fd(eventfd(0, EFD_CLOEXEC));
  if (!stop_fd.valid()) return ErrnoStatus(errno, "eventfd() failed");
  return std::unique_ptr<SocketListener>(new SocketListener(
      path, made, std::move(fd), std::move(stop_fd), std::move(accepted)));
}

SocketListener::SocketListener(std::string path, const struct stat& made, UniqueFd fd,
                               UniqueFd stop_fd, std::function<void(UniqueFd)> accepted)
    : path_(std::move(path)),
      device_(made.st_dev),
      inode_(made.st_ino),
      fd_(std::move(fd)),
      stop_fd_(std::move(stop_fd)),
      accepted_(std::move(accepted)),
      thread_([this] { Run(); }) {}

SocketListener::~SocketListener() {
  const uint64_t one = 1;
  (void)!write(stop_fd_.get(), &one, sizeof(one));
  thread_.join();
  // Do not remove one that another program has put in its place.
  struct stat info;
  if (lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ &&
      info.st_ino == inode_) {
    unlink(path_.c_str());
  }
}

void SocketListener::Run() {
  (void)pthread_setname_np(pthread_self(), "rwa-control");
  for (;;) {
    pollfd fds[2] = {{fd_.get(), POLLIN, 0}, {stop_fd_.get(), POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return;
    if (fds[1].revents != 0) return;
    if (fds[0].revents == 0) continue;
    // The connection stays in the queue, and the socket readable.
    if (!Accept()) (void)poll(&fds[1], 1, kScarceMsec);
  }
}

bool SocketListener::Accept() {
  UniqueFd peer(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!peer.valid()) {
    return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
  }
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  if (getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0 ||
      !IsTrustedPeer(credentials.uid, geteuid()) ||
      !open_.Add(peer.get(), credentials.pid)) {
    return true;  // closed
  }
  accepted_(std::move(peer));
  return true;
}

}  // namespace rocattach
