// The time at which a start of a session ends.
#ifndef ROCATTACH_USERSPACE_SESSION_SESSION_END_H_
#define ROCATTACH_USERSPACE_SESSION_SESSION_END_H_

#include <atomic>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace rocattach {

// The message of a start that has ended before the process had begun.
inline constexpr absl::string_view kEndedBeforeBegun =
    "the session was stopped before it was active";

// A time of the boot-time clock. Thread-safe. The end applies to each process where its
// plan is, not where the session is stopped: the thread that stops it may be waiting
// for a process that does not answer.
class SessionEnd {
 public:
  uint64_t ns() const { return ns_.load(std::memory_order_relaxed); }
  // Only an earlier time than the current one has an effect.
  void BringForward(uint64_t ns) {
    uint64_t known = ns_.load(std::memory_order_relaxed);
    while (ns < known &&
           !ns_.compare_exchange_weak(known, ns, std::memory_order_relaxed)) {
    }
  }

 private:
  std::atomic<uint64_t> ns_ = UINT64_MAX;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_SESSION_END_H_
