// Limits for mapping the collectors' rings, and what keeps their holes.
#ifndef ROCATTACH_USERSPACE_RECORD_DRAIN_RING_VIEWS_H_
#define ROCATTACH_USERSPACE_RECORD_DRAIN_RING_VIEWS_H_

#include <cstdint>

#include "userspace/base/unique_fd.h"

namespace rocattach {

class RingPages;

// Resources that all processes share:
//
// 1. Bytes of busy rings. Reading a busy ring where it is costs less than copying it out
//    first, but what is mapped counts as the service's memory. Rings for which there is
//    no room are copied.
// 2. Pages with the positions of rings that stay mapped. Each of them costs the service
//    two of the mappings that the kernel allows it (vm.max_map_count). Where there is no
//    room, they are mapped for a moment whenever they are needed, those of one process
//    at a time.
//
// A page that a target has never written, or has removed again, would be allocated when
// it is accessed, at the service's expense, for as long as the target keeps the file. So
// holes are not filled: userfaultfd(2) makes accessing one a SIGBUS (see FaultGuard).
// Without it no busy ring is mapped.
//
// Used by one thread.
class RingViews {
 public:
  explicit RingViews(uint64_t most_bytes, uint64_t most_pages = MostPages());
  RingViews(const RingViews&) = delete;
  RingViews& operator=(const RingViews&) = delete;

  // Half of the mappings that the kernel allows the service, two for each page.
  static uint64_t MostPages();

  // False if busy rings cannot be mapped here, and holes are not kept.
  bool available() const { return holes_.valid(); }
  // Reserves `bytes`; false if fewer are left.
  bool Reserve(uint64_t bytes) {
    if (!available() || bytes > left_) return false;
    left_ -= bytes;
    return true;
  }
  void Return(uint64_t bytes) { left_ += bytes; }
  uint64_t left() const { return left_; }

  // Reserves one page that stays mapped; false if none is left.
  bool ReservePage() {
    if (pages_left_ == 0) return false;
    --pages_left_;
    return true;
  }
  void ReturnPages(uint64_t pages) { pages_left_ += pages; }
  uint64_t pages_left() const { return pages_left_; }

  // Stores that `pages` are mapped temporarily, and unmaps the previous such pages.
  void Lend(RingPages* pages);
  // `pages` are no longer mapped temporarily, or no longer exist.
  void EndLoan(const RingPages* pages) {
    if (lent_to_ == pages) lent_to_ = nullptr;
  }

  // From now on, until they are unmapped, accessing a hole in these whole pages of a
  // memfd, which are mapped at `at`, raises SIGBUS. False if that is not possible.
  bool KeepHoles(void* at, uint64_t bytes) const;

 private:
  uint64_t left_;
  uint64_t pages_left_;
  RingPages* lent_to_ = nullptr;
  const UniqueFd holes_;  // userfaultfd
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRAIN_RING_VIEWS_H_
