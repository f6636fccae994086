#include "userspace/base/wake_event.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "userspace/base/errno_status.h"

namespace rocattach {

WakeEvent::WakeEvent() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!fd_.valid()) error_ = errno;
}

absl::Status WakeEvent::status() const {
  return fd_.valid() ? absl::OkStatus() : ErrnoStatus(error_, "eventfd() failed");
}

void WakeEvent::Signal() const {
  const uint64_t one = 1;
  (void)!write(fd_.get(), &one, sizeof(one));
}

void WakeEvent::Clear() const {
  uint64_t count;
  (void)!read(fd_.get(), &count, sizeof(count));
}

bool WakeEvent::WaitFor(uint64_t timeout_ns) const {
  pollfd fd = {fd_.get(), POLLIN, 0};
  const timespec timeout = {static_cast<time_t>(timeout_ns / 1'000'000'000),
                            static_cast<long>(timeout_ns % 1'000'000'000)};
  if (ppoll(&fd, 1, timeout_ns == kForever ? nullptr : &timeout, nullptr) <= 0) {
    return false;
  }
  Clear();
  return true;
}

}  // namespace rocattach
