#include "userspace/control/socket_listener.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/temporary_directory.h"

namespace rocattach {
namespace {

class SocketListenerTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<SocketListener>> Listen() {
    return SocketListener::Listen(path_, [this](UniqueFd fd) {
      ++accepted_;
      (void)!send(fd.get(), "x", 1, MSG_NOSIGNAL);
    });
  }
  sockaddr_un Address() const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    return address;
  }
  // Binds another program's socket to the path.
  UniqueFd Bind(int type) const {
    UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    const sockaddr_un address = Address();
    EXPECT_EQ(
        bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
        0);
    return fd;
  }
  // Visits as a peer. Returns 'x' if it was let in, 0 if it was closed, -1 if it could
  // not connect.
  static int Visit(const std::string& path) {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      return -1;
    pollfd answer = {fd.get(), POLLIN, 0};
    if (poll(&answer, 1, /*timeout=*/60'000) != 1) {
      ADD_FAILURE() << "neither let in nor closed";
      return -2;
    }
    char byte = 0;
    return read(fd.get(), &byte, 1) == 1 ? byte : 0;
  }
  // The same, as another user.
  int VisitAs(uid_t uid) {
    chmod(directory_.path().c_str(), 0755);
    const pid_t child = fork();
    if (child == 0) {
      if (setgid(uid) != 0 || setuid(uid) != 0) _exit(99);
      _exit(Visit(path_) + 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status) - 1;
  }

  const testing_support::TemporaryDirectory directory_;
  std::string path_ = directory_ / "control.sock";
  std::atomic<int> accepted_ = 0;
};

TEST_F(SocketListenerTest, OnlyItsOwnerIsLetIn) {
  auto listener = Listen();
  ASSERT_TRUE(listener.ok()) << listener.status();
  struct stat info;
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(Visit(path_), 'x');
  EXPECT_EQ(accepted_, 1);
  if (geteuid() != 0) GTEST_SKIP() << "needs root to be somebody else";
  EXPECT_EQ(VisitAs(65534), -1) << "the file's mode";
  chmod(path_.c_str(), 0666);
  EXPECT_EQ(VisitAs(65534), 0) << "SO_PEERCRED decides";
  EXPECT_EQ(accepted_, 1);
}

TEST_F(SocketListenerTest, OnlyRootAndTheOwnUserAreTrusted) {
  EXPECT_TRUE(IsTrustedPeer(0, 1000));
  EXPECT_TRUE(IsTrustedPeer(1000, 1000));
  EXPECT_FALSE(IsTrustedPeer(1001, 1000));
  EXPECT_FALSE(IsTrustedPeer(1000, 0));
}

TEST_F(SocketListenerTest, ADeadSocketIsReplacedAndALiveOneIsNot) {
  {
    // A service that was killed leaves its socket behind.
    UniqueFd dead(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    ASSERT_EQ(bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
              0);
  }
  auto first = Listen();
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = Listen();
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Visit(path_), 'x');
  first->reset();
  EXPECT_FALSE(std::filesystem::exists(path_)) << "it goes with the service";
}

// A socket of another user, even if no program is listening on it.
TEST_F(SocketListenerTest, AnotherUsersSocketIsNeverRemoved) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to make another user's socket";
  UniqueFd theirs = Bind(SOCK_STREAM);
  ASSERT_EQ(chown(path_.c_str(), 65534, 65534), 0);
  const absl::Status refused = Listen().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(refused.message().find("65534"), absl::string_view::npos) << refused;
  EXPECT_TRUE(std::filesystem::is_socket(path_));
}

// A datagram socket in use refuses connections too.
TEST_F(SocketListenerTest, AnotherKindOfSocketIsNeverRemoved) {
  UniqueFd theirs = Bind(SOCK_DGRAM);
  EXPECT_EQ(Listen().status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(std::filesystem::is_socket(path_));
}

// A program that listens and does not accept, with its queue full.
TEST_F(SocketListenerTest, AFullQueueOfConnectionsDoesNotDelayTheStart) {
  UniqueFd theirs = Bind(SOCK_STREAM);
  ASSERT_EQ(listen(theirs.get(), 0), 0);
  std::vector<UniqueFd> waiting;
  for (;;) {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_un address = Address();
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                sizeof(address)) != 0) {
      ASSERT_EQ(errno, EAGAIN);
      break;
    }
    waiting.push_back(std::move(fd));
  }
  EXPECT_EQ(Listen().status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(std::filesystem::is_socket(path_));
}

// The connection stays in the socket's queue, so the socket stays readable.
TEST_F(SocketListenerTest, WithoutDescriptorsItWaitsAndDoesNotSpin) {
  auto listener = Listen();
  ASSERT_TRUE(listener.ok()) << listener.status();
  UniqueFd client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 200;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<UniqueFd> used;
  for (int fd = dup(STDERR_FILENO); fd >= 0; fd = dup(STDERR_FILENO)) {
    used.emplace_back(fd);
  }
  const sockaddr_un address = Address();
  ASSERT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&address),
                    sizeof(address)),
            0);
  const auto cpu_ns = [] {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1'000'000'000 + now.tv_nsec;
  };
  const auto begin = cpu_ns();
  pollfd answer = {client.get(), POLLIN, 0};
  EXPECT_EQ(poll(&answer, 1, 400), 0) << "nobody can let it in";
  EXPECT_LT(cpu_ns() - begin, 100'000'000);
  used.clear();
  char byte = 0;
  EXPECT_EQ(poll(&answer, 1, /*timeout=*/60'000), 1) << "it is still not let in";
  EXPECT_EQ(recv(client.get(), &byte, 1, MSG_DONTWAIT), 1);
  EXPECT_EQ(byte, 'x');
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(SocketListenerTest, TheEndDoesNotRemoveAnotherSocket) {
  auto first = Listen();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(unlink(path_.c_str()), 0);
  UniqueFd theirs = Bind(SOCK_STREAM);
  first->reset();
  EXPECT_TRUE(std::filesystem::is_socket(path_));
}

TEST_F(SocketListenerTest, AFileIsNeverRemoved) {
  std::ofstream(path_) << "precious";
  EXPECT_EQ(Listen().status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(std::filesystem::exists(path_));
  path_ = std::string(200, 'x');
  EXPECT_EQ(Listen().status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace rocattach
