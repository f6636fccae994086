#include "userspace/base/control_message.h"

#include <errno.h>
#include <string.h>

namespace rocattach {

int SendWithControl(int socket_fd, const sockaddr_un& address, socklen_t address_bytes,
                    absl::string_view text, int type, absl::string_view control) {
  if (control.size() > kMostControlBytes) return EINVAL;
  alignas(cmsghdr) char buffer[CMSG_SPACE(kMostControlBytes)] = {};
  // Neither is written to.
  iovec part = {const_cast<char*>(text.data()), text.size()};
  msghdr message = {};
  message.msg_name = const_cast<sockaddr_un*>(&address);
  message.msg_namelen = address_bytes;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = buffer;
  message.msg_controllen = CMSG_SPACE(control.size());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = type;
  header->cmsg_len = CMSG_LEN(control.size());
  memcpy(CMSG_DATA(header), control.data(), control.size());
  const ssize_t sent = sendmsg(socket_fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) return errno;
  return static_cast<size_t>(sent) == text.size() ? 0 : EMSGSIZE;
}

}  // namespace rocattach
