// The page at the beginning of each ring, with its positions and accounts.
#ifndef ROCATTACH_USERSPACE_RECORD_DRAIN_RING_PAGES_H_
#define ROCATTACH_USERSPACE_RECORD_DRAIN_RING_PAGES_H_

#include <cstdint>

#include "userspace/abi/geometry.h"
#include "userspace/record/drain/ring_views.h"

namespace rocattach {

// Both sides access positions and accounts at the same time, so they must be mapped: a
// copy made by the kernel is not atomic. The pages of the first rings stay mapped, as
// far as RingViews has room for them. The others are mapped, all at once, when they are
// needed, and unmapped when another process's pages are mapped in this way.
class RingPages {
 public:
  static constexpr uint64_t kPageBytes = 4096;

  // For the memfd `fd`. `base` is address space for all of it, in which only this
  // object maps the first pages of rings. Both must outlive this object.
  RingPages(int fd, uint8_t* base, const collector::Geometry& geometry)
      : fd_(fd), base_(base), geometry_(geometry) {}
  // Returns the pages to RingViews; `base` is unmapped by its owner.
  ~RingPages();
  RingPages(const RingPages&) = delete;
  RingPages& operator=(const RingPages&) = delete;

  // Unmaps all pages. From now on, pages stay mapped as far as `views`, which must
  // outlive this object, has room; before this call, none does.
  void ShareWith(RingViews* views);

  // Marks the rings below `rings` as in use; their number never decreases. False if
  // the page of one of them does not exist: the user of a ring writes its page first.
  // Keeps more pages mapped if there is room now.
  bool Use(uint32_t rings);
  uint32_t used() const { return used_; }
  // Number of rings whose pages are mapped all the time.
  uint32_t standing() const { return standing_; }

  // Makes the pages of all rings in use accessible until this is called for another
  // memory. False if they cannot be mapped at the moment. Costs nothing if all of them
  // stay mapped.
  bool Reach() { return reached_ >= used_ || MapForAMoment(); }
  // Unmaps the pages that do not stay mapped.
  void Leave();
  // Unmaps all pages, and everything else of the rings that is mapped.
  void Unmap();

 private:
  bool Exists(uint32_t index) const;
  bool KeepNext();
  bool MapForAMoment();
  // Maps from the page of ring `first` to the page of the ring before `end`.
  bool Map(uint32_t first, uint32_t end);
  bool MapNothing(uint64_t offset, uint64_t bytes);
  uint64_t OffsetOf(uint32_t index) const {
    return geometry_.rings_offset + index * geometry_.ring_stride;
  }

  const int fd_;
  uint8_t* const base_;
  const collector::Geometry geometry_;
  RingViews* views_ = nullptr;
  uint32_t used_ = 0;
  uint32_t standing_ = 0;  // pages that stay mapped
  uint32_t reached_ = 0;   // pages mapped now; at least `standing_`
  uint32_t touched_ = 0;   // pages perhaps still mapped, if unmapping failed
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRAIN_RING_PAGES_H_
