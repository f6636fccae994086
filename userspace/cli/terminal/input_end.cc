#include "userspace/cli/terminal/input_end.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include <utility>

namespace rocattach {

InputEnd::InputEnd(bool wanted, std::function<void()> on_end)
    : on_end_(std::move(on_end)) {
  if (wanted) thread_ = std::thread([this] { Read(); });
}

InputEnd::~InputEnd() {
  stop_.Signal();
  if (thread_.joinable()) thread_.join();
}

void InputEnd::Read() {
  while (true) {
    pollfd ready[] = {{STDIN_FILENO, POLLIN, 0}, {stop_.fd(), POLLIN, 0}};
    if (poll(ready, 2, -1) < 0 && errno != EINTR) return;
    if (ready[1].revents != 0) return;
    if (ready[0].revents == 0) continue;
    char ignored[512];
    const ssize_t bytes = read(STDIN_FILENO, ignored, sizeof(ignored));
    if (bytes > 0 || (bytes < 0 && (errno == EINTR || errno == EAGAIN))) continue;
    return on_end_();
  }
}

}  // namespace rocattach
