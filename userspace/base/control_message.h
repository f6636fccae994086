// Datagrams with a control message (unix(7), cmsg(3)).
#ifndef ROCATTACH_USERSPACE_BASE_CONTROL_MESSAGE_H_
#define ROCATTACH_USERSPACE_BASE_CONTROL_MESSAGE_H_

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>

#include "absl/strings/string_view.h"

namespace rocattach {

// Sends `text` with one control message of the level SOL_SOCKET, whose content is
// `control`. Never waits, and raises no signal. 0, or the errno; EMSGSIZE if not all of
// the text was sent.
inline constexpr size_t kMostControlBytes = 64;
int SendWithControl(int socket_fd, const sockaddr_un& address, socklen_t address_bytes,
                    absl::string_view text, int type, absl::string_view control);

// The bytes of a value, as the content of a control message. It must outlive them.
template <typename T>
absl::string_view BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_CONTROL_MESSAGE_H_
