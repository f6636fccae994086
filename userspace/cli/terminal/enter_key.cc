#include "userspace/cli/terminal/enter_key.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

namespace rocattach {

EnterKey::EnterKey(bool wanted) : watching_(wanted && isatty(STDIN_FILENO) != 0) {}

bool EnterKey::Pressed(int timeout_msec) {
  const bool foreground = watching_ && tcgetpgrp(STDIN_FILENO) == getpgrp();
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  if (poll(&input, foreground ? 1 : 0, timeout_msec) <= 0) return false;
  // A terminal gives one line at most; what is left of a long one is read next time.
  char line[256];
  const ssize_t bytes = read(STDIN_FILENO, line, sizeof(line));
  if (bytes > 0) return line[bytes - 1] == '\n';
  // The terminal has been closed or disconnected.
  if (bytes == 0 || errno != EINTR) watching_ = false;
  return false;
}

}  // namespace rocattach
