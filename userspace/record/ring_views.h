// How much of the collectors' rings may be mapped at a time.
#ifndef ROCATTACH_USERSPACE_RECORD_RING_VIEWS_H_
#define ROCATTACH_USERSPACE_RECORD_RING_VIEWS_H_

#include <cstdint>

namespace rocattach {

// Reading a busy ring where it is costs less than copying it out first, but what is
// mapped counts as the service's memory. So the busy rings of all processes share this
// many bytes; the others are copied. Used by one thread.
class RingViews {
 public:
  explicit RingViews(uint64_t most_bytes) : left_(most_bytes) {}
  RingViews(const RingViews&) = delete;
  RingViews& operator=(const RingViews&) = delete;

  // False if so many bytes are not left.
  bool Take(uint64_t bytes) {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }
  void Return(uint64_t bytes) { left_ += bytes; }
  uint64_t left() const { return left_; }

 private:
  uint64_t left_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_RING_VIEWS_H_
