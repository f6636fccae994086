#include "userspace/record/drain/ring_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace rocattach {

RingPages::~RingPages() {
  if (views_ == nullptr) return;
  views_->EndLoan(this);
  views_->ReturnPages(standing_);
}

void RingPages::ShareWith(RingViews* views) {
  Unmap();
  if (views_ != nullptr) {
    views_->EndLoan(this);
    views_->ReturnPages(standing_);
    standing_ = 0;
  }
  views_ = views;
}

// lseek() takes the file's lock, which the process can hold by a write whose source is
// not delivered. Where holes are kept, accessing one is detected as well.
bool RingPages::Exists(uint32_t index) const {
  if (views_ != nullptr && views_->available()) return true;
  const auto offset = static_cast<off_t>(OffsetOf(index));
  return lseek(fd_, offset, SEEK_DATA) == offset;
}

bool RingPages::Use(uint32_t rings) {
  for (; used_ < rings; ++used_) {
    if (!Exists(used_)) return false;
  }
  while (standing_ < used_ && KeepNext()) {
  }
  return true;
}

bool RingPages::KeepNext() {
  if (views_ == nullptr || !views_->ReservePage()) return false;
  Leave();
  if (!Map(standing_, standing_ + 1)) {
    views_->ReturnPages(1);
    return false;
  }
  ++standing_;
  reached_ = standing_;
  return true;
}

bool RingPages::MapForAMoment() {
  if (views_ != nullptr) views_->Lend(this);
  // One mapping for all of them; the memory in between is not accessed.
  if (!Map(standing_, used_)) return false;
  reached_ = used_;
  return true;
}

bool RingPages::Map(uint32_t first, uint32_t end) {
  const uint64_t offset = OffsetOf(first);
  const uint64_t bytes = OffsetOf(end - 1) + kPageBytes - offset;
  // If anything below fails, no page beyond `standing_` may be accessed.
  reached_ = standing_;
  if (mmap(base_ + offset, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_,
           static_cast<off_t>(offset)) == MAP_FAILED) {
    return false;
  }
  touched_ = std::max(touched_, end);
  if (views_ == nullptr || !views_->available() ||
      views_->KeepHoles(base_ + offset, bytes)) {
    return true;
  }
  (void)MapNothing(offset, bytes);
  return false;
}

bool RingPages::MapNothing(uint64_t offset, uint64_t bytes) {
  return mmap(base_ + offset, bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
              0) != MAP_FAILED;
}

void RingPages::Leave() {
  reached_ = standing_;
  if (touched_ <= standing_) return;
  const uint64_t offset = OffsetOf(standing_);
  if (MapNothing(offset, OffsetOf(touched_ - 1) + kPageBytes - offset)) {
    touched_ = standing_;
  }
}

void RingPages::Unmap() {
  if (views_ != nullptr) views_->EndLoan(this);
  reached_ = 0;
  if (touched_ == 0 || !MapNothing(geometry_.rings_offset,
                                   geometry_.ring_count * geometry_.ring_stride)) {
    return;
  }
  if (views_ != nullptr) views_->ReturnPages(standing_);
  standing_ = touched_ = 0;
}

}  // namespace rocattach
