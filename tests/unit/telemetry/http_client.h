// A minimal client that sends exactly what it is given.
#ifndef ROCATTACH_TESTS_UNIT_TELEMETRY_HTTP_CLIENT_H_
#define ROCATTACH_TESTS_UNIT_TELEMETRY_HTTP_CLIENT_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "userspace/base/unique_fd.h"
#include "userspace/telemetry/listen_address.h"

namespace rocattach::testing_support {

class HttpClient {
 public:
  explicit HttpClient(const ListenAddress& server)
      : fd_(socket(server.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    connected_ = connect(fd_.get(), reinterpret_cast<const sockaddr*>(&server.address),
                         server.size) == 0;
  }

  bool connected() const { return connected_; }
  bool Send(const std::string& bytes) const {
    return send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // Receives an answer: the head and as much body as the head says, or up to the end.
  std::string Receive() const {
    std::string text;
    for (;;) {
      const size_t head = text.find("\r\n\r\n");
      const size_t length = text.find("Content-Length: ");
      if (head != std::string::npos && length < head &&
          text.size() >= head + 4 + std::stoul(text.substr(length + 16))) {
        return text;
      }
      char bytes[65536];
      const ssize_t count = HasMore() ? recv(fd_.get(), bytes, sizeof(bytes), 0) : 0;
      if (count <= 0) return text;
      text.append(bytes, static_cast<size_t>(count));
    }
  }
  // Receives everything up to the end, for an answer without a body.
  std::string ReceiveHead() const {
    std::string text;
    char bytes[4096];
    while (HasMore()) {
      const ssize_t count = recv(fd_.get(), bytes, sizeof(bytes), 0);
      if (count <= 0) break;
      text.append(bytes, static_cast<size_t>(count));
    }
    return text;
  }
  // True if the server closes the connection within `timeout_msec`.
  bool IsClosed(int timeout_msec = 5000) const {
    pollfd fd = {fd_.get(), POLLIN, 0};
    char byte;
    return poll(&fd, 1, timeout_msec) > 0 && recv(fd_.get(), &byte, 1, 0) <= 0;
  }

 private:
  // Waits for bytes or the end of the connection.
  bool HasMore() const {
    pollfd fd = {fd_.get(), POLLIN, 0};
    if (poll(&fd, 1, /*timeout=*/60'000) != 0) return true;
    ADD_FAILURE() << "the server neither answers nor closes the connection";
    return false;
  }

  UniqueFd fd_;
  bool connected_ = false;
};

inline std::string Get(const ListenAddress& server, const std::string& path) {
  HttpClient client(server);
  client.Send("GET " + path +
              " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  return client.Receive();
}

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_UNIT_TELEMETRY_HTTP_CLIENT_H_
