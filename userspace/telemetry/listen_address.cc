#include "userspace/telemetry/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

template <typename T>
T As(const sockaddr_storage& storage) {
  T address;
  memcpy(&address, &storage, sizeof(address));
  return address;
}

template <typename T>
void Set(const T& address, ListenAddress* to) {
  memcpy(&to->address, &address, sizeof(address));
  to->size = sizeof(address);
}

absl::Status BadAddress(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", text,
                   "' is no address to listen at: ADDRESS:PORT with a numeric address "
                   "is, such as 127.0.0.1:9410, 0.0.0.0:9410 or [::1]:9410"));
}

}  // namespace

bool ListenAddress::loopback() const {
  if (address.ss_family == AF_INET) {
    return ntohl(As<sockaddr_in>(address).sin_addr.s_addr) >> 24 == 127;
  }
  const sockaddr_in6 v6 = As<sockaddr_in6>(address);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

std::string ListenAddress::text() const {
  char name[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const sockaddr_in v4 = As<sockaddr_in>(address);
    inet_ntop(AF_INET, &v4.sin_addr, name, sizeof(name));
    return absl::StrCat(name, ":", ntohs(v4.sin_port));
  }
  const sockaddr_in6 v6 = As<sockaddr_in6>(address);
  inet_ntop(AF_INET6, &v6.sin6_addr, name, sizeof(name));
  return absl::StrCat("[", name, "]:", ntohs(v6.sin6_port));
}

absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text) {
  const size_t colon = text.rfind(':');
  std::string host(colon == absl::string_view::npos ? "" : text.substr(0, colon));
  const absl::string_view port_text =
      colon == absl::string_view::npos ? text : text.substr(colon + 1);
  uint32_t port = 0;
  if (!absl::SimpleAtoi(port_text, &port) || port > 65535) return BadAddress(text);
  if (host.empty() || host == "localhost") host = "127.0.0.1";
  ListenAddress result;
  sockaddr_in v4 = {};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    Set(v4, &result);
    return result;
  }
  sockaddr_in6 v6 = {};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(static_cast<uint16_t>(port));
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed && inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(),
                             &v6.sin6_addr) == 1) {
    Set(v6, &result);
    return result;
  }
  return BadAddress(text);
}

}  // namespace rocattach
