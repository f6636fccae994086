// An eventfd that wakes a thread which waits with poll(2).
#ifndef ROCATTACH_USERSPACE_BASE_WAKE_EVENT_H_
#define ROCATTACH_USERSPACE_BASE_WAKE_EVENT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// Signals are counted, not queued: a waiting thread wakes once for all signals since it
// last waited. Timeouts follow CLOCK_MONOTONIC. Signal() is thread-safe and
// async-signal-safe; one thread at a time may wait.
class WakeEvent {
 public:
  // Timeout of WaitFor(): waits until there is a signal.
  static constexpr uint64_t kForever = UINT64_MAX;

  WakeEvent();

  // An error if the process has no descriptor left.
  absl::Status status() const;
  // For poll(2) together with other descriptors; call Clear() after it.
  int fd() const { return fd_.get(); }
  void Signal() const;
  // Forgets all signals so far.
  void Clear() const;
  // Waits for a signal, `timeout_ns` at most, and clears it. True if there was one.
  bool WaitFor(uint64_t timeout_ns) const;

 private:
  UniqueFd fd_;
  int error_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_WAKE_EVENT_H_
