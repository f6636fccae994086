#include "userspace/telemetry/http_get.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {
namespace {

constexpr timeval kPatience = {5, 0};
// A longer answer is not one of ours.
constexpr size_t kMostBytes = 256 << 20;

absl::Status Failed(const ListenAddress& server, int error) {
  if (error == EAGAIN || error == EINPROGRESS) {
    return absl::DeadlineExceededError(
        absl::StrCat(server.text(), " did not answer within five seconds"));
  }
  return ErrnoStatus(error, absl::StrCat("cannot reach ", server.text()));
}

}  // namespace

absl::StatusOr<std::string> HttpGet(const ListenAddress& server,
                                    const std::string& path) {
  UniqueFd fd(socket(server.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Failed(server, errno);
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(kPatience));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&server.address),
              server.size) != 0) {
    return Failed(server, errno);
  }
  const std::string request =
      absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: ", server.text(),
                   "\r\nConnection: close\r\n\r\n");
  if (send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return Failed(server, errno);
  }
  std::string text;
  char bytes[65536];
  for (;;) {
    const ssize_t count = recv(fd.get(), bytes, sizeof(bytes), 0);
    if (count < 0) return Failed(server, errno);
    if (count == 0) break;
    text.append(bytes, static_cast<size_t>(count));
    if (text.size() > kMostBytes) return Failed(server, EFBIG);
  }
  const size_t head = text.find("\r\n\r\n");
  if (!absl::StartsWith(text, "HTTP/1.1 ") || head == std::string::npos) {
    return absl::UnavailableError(
        absl::StrCat(server.text(), " did not answer as rocattach-watch does"));
  }
  std::string body = text.substr(head + 4);
  if (text.substr(9, 3) != "200") {
    return absl::UnavailableError(
        absl::StrCat(server.text(), " answered: ", absl::StripAsciiWhitespace(body)));
  }
  return body;
}

}  // namespace rocattach
