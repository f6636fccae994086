// How much of the collectors' rings may be mapped at a time, and how.
#ifndef ROCATTACH_USERSPACE_RECORD_RING_VIEWS_H_
#define ROCATTACH_USERSPACE_RECORD_RING_VIEWS_H_

#include <cstdint>

#include "userspace/base/unique_fd.h"

namespace rocattach {

// Reading a busy ring where it is costs less than copying it out first, but what is
// mapped counts as the service's memory. So the busy rings of all processes share this
// many bytes; the others are copied.
//
// A page that a target has never written, or has removed again, would be allocated when
// it is read, at the service's expense, for as long as the target keeps the file. So
// holes are not filled: userfaultfd(2) makes reading one a SIGBUS (see FaultGuard).
// Without it nothing is mapped.
//
// Used by one thread.
class RingViews {
 public:
  explicit RingViews(uint64_t most_bytes);
  RingViews(const RingViews&) = delete;
  RingViews& operator=(const RingViews&) = delete;

  // False if nothing can be mapped here.
  bool available() const { return holes_.valid(); }
  // False if so many bytes are not left.
  bool Take(uint64_t bytes) {
    if (!available() || bytes > left_) return false;
    left_ -= bytes;
    return true;
  }
  void Return(uint64_t bytes) { left_ += bytes; }
  uint64_t left() const { return left_; }

  // From now on reading a hole in these whole pages of a memfd, which are mapped at
  // `at`, is a SIGBUS; until they are unmapped. False if that cannot be had.
  bool KeepHoles(void* at, uint64_t bytes) const;

 private:
  uint64_t left_;
  const UniqueFd holes_;  // of userfaultfd
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_RING_VIEWS_H_
