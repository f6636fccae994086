// Clients that violate the protocol do not affect the service of others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/temporary_directory.h"
#include "tests/unit/control/service_on_socket.h"
#include "userspace/base/session_status.h"
#include "userspace/base/unique_fd.h"
#include "userspace/control/service_connection.h"
#include "userspace/control/sessions_handler.h"
#include "userspace/control/socket_listener.h"
#include "userspace/library/remote_runner.h"
#include "userspace/library/session_engine.h"

namespace rocattach {
namespace {

using ::testing::HasSubstr;

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// An HTTP/2 frame; its length field may be false.
std::string Frame(uint8_t type, uint8_t flags, uint32_t stream,
                  const std::string& payload, size_t length) {
  std::string frame;
  for (int shift = 16; shift >= 0; shift -= 8) {
    frame += static_cast<char>(length >> shift & 0xff);
  }
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  for (int shift = 24; shift >= 0; shift -= 8) {
    frame += static_cast<char>(stream >> shift & 0xff);
  }
  return frame + payload;
}
std::string Frame(uint8_t type, uint8_t flags, uint32_t stream,
                  const std::string& payload) {
  return Frame(type, flags, stream, payload, payload.size());
}

class ControlAbuseTest : public testing::Test {
 protected:
  UniqueFd Connect() const {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, socket_.c_str(), socket_.size() + 1);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
              0);
    return fd;
  }
  // Sends as much as the service takes before it closes the connection.
  static void Send(const UniqueFd& fd, const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t n =
          send(fd.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<size_t>(n);
    }
  }
  // Returns the next `size` bytes; fewer at the end of the connection.
  static std::string Receive(const UniqueFd& fd, size_t size) {
    std::string bytes(size, '\0');
    size_t have = 0;
    while (have < size) {
      pollfd ready = {fd.get(), POLLIN, 0};
      if (poll(&ready, 1, /*timeout=*/60'000) == 0) {
        ADD_FAILURE() << "the service neither answers nor closes the connection";
        break;
      }
      const ssize_t n = read(fd.get(), bytes.data() + have, size - have);
      if (n <= 0) break;
      have += static_cast<size_t>(n);
    }
    bytes.resize(have);
    return bytes;
  }
  // Reads until the service has closed the connection.
  static void AwaitEnd(const UniqueFd& fd) {
    while (!Receive(fd, 4096).empty()) {
    }
  }
  static absl::Status GetStatus(ServiceConnection* client) {
    return client->Call(&ServiceConnection::Stub::AsyncGetStatus, {}).status();
  }
  void ExpectServed() const {
    ServiceConnection client(socket_);
    const absl::Status status = GetStatus(&client);
    EXPECT_TRUE(status.ok()) << status;
  }

  const testing_support::TemporaryDirectory directory_;
  const std::string socket_ = directory_ / "socket";
  ServiceOnSocket service_{directory_.path(), socket_};
};

TEST_F(ControlAbuseTest, GarbageEndsItsConnectionOnly) {
  std::mt19937 random(5);
  const auto noise = [&](size_t most) {
    std::string bytes(random() % most, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  };
  const std::string settings = Frame(4, 0, 0, "");
  std::vector<std::string> attacks = {
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),  // TLS
      kPreface + Frame(4, 0, 0, "", 0xffffff),         // settings of 16 MiB
      kPreface + Frame(4, 0, 0, std::string(5, 'x')),  // an incomplete setting
      kPreface + settings + Frame(1, 0, 2, "\x82"),    // a stream ID of the server
      kPreface + settings + Frame(9, 4, 1, "\x82"),    // a continuation of no header
      kPreface + settings + Frame(8, 0, 0, std::string("\0\0\0\0", 4)),  // window 0
      kPreface + settings + Frame(1, 4, 1, std::string(100, '\xff')),    // not HPACK
      kPreface + settings + Frame(0, 1, 7, "data of no stream"),
  };
  for (int i = 0; i < 50; ++i) {
    attacks.push_back(noise(20'000));
    attacks.push_back(kPreface + settings + noise(20'000));
  }
  for (const std::string& attack : attacks) {
    const UniqueFd fd = Connect();
    Send(fd, attack);
    shutdown(fd.get(), SHUT_WR);
    AwaitEnd(fd);
  }
  ExpectServed();
}

TEST_F(ControlAbuseTest, StreamsOfOneConnectionAreLimited) {
  const UniqueFd fd = Connect();
  Send(fd, kPreface + Frame(4, 0, 0, ""));
  const std::string head = Receive(fd, 9);
  ASSERT_EQ(head.size(), 9u);
  ASSERT_EQ(head[3], 4) << "settings come first";
  const size_t size =
      static_cast<uint8_t>(head[1]) * size_t{256} + static_cast<uint8_t>(head[2]);
  const std::string settings = Receive(fd, size);
  uint32_t most = UINT32_MAX;
  for (size_t at = 0; at + 6 <= settings.size(); at += 6) {
    if (settings[at] != 0 || settings[at + 1] != 3) continue;  // concurrent streams
    most = 0;
    for (size_t i = 2; i < 6; ++i)
      most = most << 8 | static_cast<uint8_t>(settings[at + i]);
  }
  EXPECT_LE(most, 1000u);
  EXPECT_GE(most, SessionsHandler::kMostRuns + 1);
}

TEST_F(ControlAbuseTest, ConnectionsOfOneProcessAreLimitedAndOpenOnesStay) {
  ServiceConnection client(socket_);
  ASSERT_TRUE(GetStatus(&client).ok());
  std::vector<UniqueFd> silent;
  // One more than there is room for, beside the client's.
  for (size_t i = 0; i < OpenConnections::kMostOfProcess; ++i)
    silent.push_back(Connect());
  AwaitEnd(silent.back());
  EXPECT_TRUE(GetStatus(&client).ok()) << "the connection that was there";
  ServiceConnection refused(socket_);
  const absl::Status why = GetStatus(&refused);
  EXPECT_EQ(why.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(why.message()), HasSubstr("too many connections"));
  silent.clear();
  // The service learns of closed connections a little later.
  absl::Status again = why;
  for (int i = 0; i < 3000 && !again.ok(); ++i) {
    ServiceConnection next(socket_);
    again = GetStatus(&next);
    if (!again.ok()) usleep(1000);
  }
  EXPECT_TRUE(again.ok()) << again;
}

TEST_F(ControlAbuseTest, AMessageThatIsTooLargeIsRefusedAndTheConnectionGoesOn) {
  SessionEngine engine(std::make_shared<RemoteRunner>(socket_));
  ASSERT_TRUE(engine.Initialize().ok());
  const auto session = engine.CreateSession(-1);
  ASSERT_TRUE(session.ok());
  FilterSpec spec;
  spec.kind = FilterKind::kCounters;
  spec.counters = {{std::string(9 << 20, 'x')}};
  const absl::Status refused = engine.filters().Create(*session, spec).status();
  EXPECT_EQ(SessionStatusOf(refused), SessionStatus::kError) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("larger than max"));
  // Large, but within the limit.
  spec.counters = {{std::string(7 << 20, 'x')}};
  const absl::Status unknown = engine.filters().Create(*session, spec).status();
  EXPECT_EQ(SessionStatusOf(unknown), SessionStatus::kFilterDataCorrupted);
  EXPECT_LT(unknown.message().size(), 4096u) << "what it says of them arrives";
  spec.counters = {{"SQ_WAVES"}};
  const absl::Status next = engine.filters().Create(*session, spec).status();
  EXPECT_TRUE(next.ok()) << next;
}

TEST(OpenConnectionsTest, LimitsAllAndEachProcessAndForgetsClosedOnes) {
  OpenConnections open;
  std::vector<UniqueFd> fds;
  const auto add = [&](pid_t peer) {
    int pair[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    UniqueFd other(pair[1]);
    fds.emplace_back(pair[0]);
    return open.Add(pair[0], peer);
  };
  for (size_t i = 0; i < OpenConnections::kMostOfProcess; ++i) EXPECT_TRUE(add(7));
  EXPECT_FALSE(add(7));
  EXPECT_TRUE(add(8)) << "another one's";
  // The number of the closed descriptor belongs to another file now.
  const int number = fds[0].get();
  fds[0].reset();
  const UniqueFd file(dup2(STDERR_FILENO, number));
  EXPECT_TRUE(add(7));
  EXPECT_FALSE(add(7));
  pid_t peer = 100;
  size_t more = 0;
  while (add(peer++)) ++more;
  EXPECT_EQ(more + OpenConnections::kMostOfProcess + 1, OpenConnections::kMost);
  fds.clear();
  EXPECT_TRUE(add(7));
}

}  // namespace
}  // namespace rocattach
