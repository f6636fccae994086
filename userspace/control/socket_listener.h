// A Unix socket that only trusted users can talk to.
#ifndef ROCATTACH_USERSPACE_CONTROL_SOCKET_LISTENER_H_
#define ROCATTACH_USERSPACE_CONTROL_SOCKET_LISTENER_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// True if a peer may talk to us: root, or the user that runs the service.
bool IsTrustedPeer(uid_t peer, uid_t self);

// Open connections, whose descriptors belong to other code of this process: if one is
// invalid, or another file's, the connection was closed. Not thread-safe.
class OpenConnections {
 public:
  // Maximum numbers of open connections, in total and of one process. A program needs
  // one; a program that leaks them must not use up the service's descriptors.
  static constexpr size_t kMost = 256;
  static constexpr size_t kMostOfProcess = 64;

  // False if there is no room for it.
  bool Add(int fd, pid_t peer);

 private:
  struct Connection {
    int fd;
    ino_t inode;
    pid_t peer;
  };
  void ForgetClosed();

  std::vector<Connection> connections_;
};

// Listens at a path, mode 0600, and passes on connections whose peer is trusted
// according to the kernel (SO_PEERCRED), as many as OpenConnections allows; others are
// closed. A socket of the same user on which no process listens was left by a dead
// service and is replaced; nothing else is.
class SocketListener {
 public:
  static absl::StatusOr<std::unique_ptr<SocketListener>> Listen(
      const std::string& path, std::function<void(UniqueFd)> accepted);
  // Removes the socket, if it still is the one that was created.
  ~SocketListener();
  SocketListener(const SocketListener&) = delete;
  SocketListener& operator=(const SocketListener&) = delete;

  const std::string& path() const { return path_; }

 private:
  SocketListener(std::string path, const struct stat& made, UniqueFd fd,
                 UniqueFd stop_fd, std::function<void(UniqueFd)> accepted);
  void Run();
  // Accepts one connection. False if it failed for lack of descriptors or memory.
  bool Accept();

  const std::string path_;
  const dev_t device_;
  const ino_t inode_;
  UniqueFd fd_, stop_fd_;
  const std::function<void(UniqueFd)> accepted_;
  OpenConnections open_;  // used by the thread only
  std::thread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_SOCKET_LISTENER_H_
