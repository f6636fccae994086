#include "userspace/cli/terminal/line_output.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>

namespace rocattach {

void LineOutput::Add(absl::string_view text) {
  if (broken_) return;
  if (kept_bytes() + text.size() > most_kept_bytes_) {
    Flush();
    if (kept_bytes() + text.size() > most_kept_bytes_) {
      ++lines_left_out_;
      return;
    }
  }
  kept_.append(text.data(), text.size());
  Flush();
}

bool LineOutput::WriteSome(int wait_msec) {
  pollfd waiter = {fd_, POLLOUT, 0};
  int ready;
  do {
    ready = poll(&waiter, 1, wait_msec);
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) return false;
  // If poll() reports room, a pipe takes this much without blocking.
  const ssize_t n =
      write(fd_, kept_.data() + written_, std::min<size_t>(kept_bytes(), PIPE_BUF));
  if (n < 0) {
    if (errno == EINTR || errno == EAGAIN) return errno == EINTR;
    broken_ = true;  // the reader is gone
    kept_.clear();
    written_ = 0;
    return false;
  }
  written_ += static_cast<size_t>(n);
  if (written_ == kept_.size() || written_ > most_kept_bytes_) {
    kept_.erase(0, written_);
    written_ = 0;
  }
  return true;
}

void LineOutput::Flush() {
  while (kept_bytes() > 0 && WriteSome(0)) {
  }
}

void LineOutput::Finish(int patience_msec) {
  while (kept_bytes() > 0 && WriteSome(patience_msec)) {
  }
}

}  // namespace rocattach
