// CollectorMemory: the rings.
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>

#include "userspace/record/collector_memory.h"

namespace rocattach {
namespace {

// A ring in which so many records wait, or that is half full, is busy: they are read
// where they are. It is no longer busy when a quarter of them waited at each of so many
// snapshots.
constexpr uint64_t kBusyRecords = 512;
constexpr uint8_t kQuietSnapshots = 64;

constexpr uint64_t kPage = RingPages::kPageBytes;

template <typename T>
T LoadAcquire(const T* field) {
  return __atomic_load_n(field, __ATOMIC_ACQUIRE);
}

}  // namespace

bool CollectorMemory::all_rings_read() const {
  return account_is_current_ && std::min(LoadAcquire(&control()->rings_used),
                                         geometry_.ring_count) <= pages_.used();
}

bool CollectorMemory::Reach() const {
  return !stopped_ && intact() && pages_.Reach();
}

void CollectorMemory::ViewWith(RingViews* views) {
  views_ = views;
  pages_.ShareWith(views);
}

void CollectorMemory::Snapshot() {
  backend_named_ = LoadAcquire(&control()->backend) != ROCATTACH_BACKEND_NONE;
  const uint32_t used =
      std::min(LoadAcquire(&control()->rings_used), geometry_.ring_count);
  if (intact() && !stopped_ && !pages_.Use(used)) readable_ = false;
  const uint32_t reached = Reach() ? pages_.used() : 0;
  for (uint32_t i = 0; i < reached; ++i) {
    Position& position = positions_[i];
    if (position.corrupt) continue;
    uint64_t head = LoadAcquire(&ring(i)->head);
    if (head < position.head || head - position.tail > geometry_.ring_slots) {
      position.corrupt = true;
      continue;
    }
    position.head = head;
    if (position.owed) FreeTaken(i);
    most_waiting_ = std::max(most_waiting_, head - position.tail);
    if (i < pages_.standing()) UpdateMapping(i);
  }
  dictionary_used_ = std::min<uint64_t>(LoadAcquire(&control()->dictionary_used),
                                        geometry_.dictionary_bytes);
}

bool CollectorMemory::HasNews(uint64_t most_records) const {
  const rocattach_control& c = *control();
  // What Snapshot() would find, of numbers that the target may have written.
  if (std::min(LoadAcquire(&c.rings_used), geometry_.ring_count) > pages_.used() ||
      std::min<uint64_t>(LoadAcquire(&c.dictionary_used), geometry_.dictionary_bytes) !=
          dictionary_used_) {
    return true;
  }
  if (!Reach()) return pages_.used() != 0;
  for (uint32_t i = 0; i < pages_.used(); ++i) {
    const Position& position = positions_[i];
    // A head that went back wraps around, and counts as news.
    if (!position.corrupt &&
        LoadAcquire(&ring(i)->head) - position.head > most_records) {
      return true;
    }
  }
  return false;
}

uint64_t CollectorMemory::SlotsOffset(uint32_t index) const {
  return geometry_.rings_offset + index * geometry_.ring_stride +
         ROCATTACH_RING_HEADER_BYTES;
}

void CollectorMemory::UpdateMapping(uint32_t index) {
  Position& position = positions_[index];
  const uint64_t waiting = position.head - position.tail;
  const uint64_t busy = std::min<uint64_t>(kBusyRecords, geometry_.ring_slots / 2);
  if (position.mapped) {
    position.quiet =
        waiting < busy / 4 ? static_cast<uint8_t>(position.quiet + 1) : uint8_t{0};
    if (position.quiet >= kQuietSnapshots || !position.viewable) Unmap(index);
    return;
  }
  const uint64_t bytes = geometry_.ring_stride - kPage;
  if (waiting < busy || bytes == 0 || !views_->Take(bytes)) return;
  const uint64_t offset =
      geometry_.rings_offset + index * geometry_.ring_stride + kPage;
  position.mapped = MapPart(offset, bytes).ok();
  position.quiet = 0;
  if (!position.mapped) {
    views_->Return(bytes);
    return;
  }
  position.viewable = views_->KeepHoles(base_ + offset, bytes);
  if (!position.viewable) Unmap(index);
}

void CollectorMemory::Unmap(uint32_t index) {
  if (viewed_ring_ == index) return;  // later
  positions_[index].viewable = false;
  const uint64_t bytes = geometry_.ring_stride - kPage;
  uint8_t* const at =
      base_ + geometry_.rings_offset + index * geometry_.ring_stride + kPage;
  // If that fails, the pages stay, and are still ours.
  if (mmap(at, bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
           0) == MAP_FAILED) {
    return;
  }
  positions_[index].mapped = false;
  views_->Return(bytes);
}

void CollectorMemory::StopReading() {
  stopped_ = true;
  if (viewed_ring_.has_value()) return;  // when it ends
  for (uint32_t i = 0; i < pages_.used(); ++i) {
    if (positions_[i].mapped) Unmap(i);
  }
  pages_.Unmap();
}

absl::Span<const RecordSlot> CollectorMemory::View(uint32_t index, size_t most) {
  Position& position = positions_[index];
  if (position.corrupt || stopped_ || !position.viewable || viewed_ring_.has_value())
    return {};
  const uint64_t first = position.tail & (geometry_.ring_slots - 1);
  const uint64_t count = std::min<uint64_t>(
      {position.head - position.tail, most, geometry_.ring_slots - first});
  if (count == 0) return {};
  position.tail += count;
  viewed_ring_ = index;
  return {reinterpret_cast<const RecordSlot*>(base_ + SlotsOffset(index)) + first,
          count};
}

void CollectorMemory::EndView() {
  if (!viewed_ring_.has_value()) return;
  const uint32_t index = *viewed_ring_;
  viewed_ring_.reset();
  FreeTaken(index);
  if (stopped_) StopReading();
}

void CollectorMemory::FreeTaken(uint32_t index) {
  if (viewed_ring_ == index) return;
  Position& position = positions_[index];
  position.owed = !Reach();
  if (position.owed) return;  // at a later snapshot
  __atomic_store_n(&ring(index)->tail, position.tail, __ATOMIC_RELEASE);
}

size_t CollectorMemory::Drain(uint32_t index, absl::Span<RecordSlot> out) {
  Position& position = positions_[index];
  if (position.corrupt || stopped_) return 0;
  uint64_t waiting = position.head - position.tail;
  size_t count = std::min<uint64_t>(waiting, out.size());
  if (count == 0) return 0;
  const uint64_t slots = SlotsOffset(index);
  uint64_t first = position.tail & (geometry_.ring_slots - 1);
  size_t run = std::min<uint64_t>(count, geometry_.ring_slots - first);
  if (!Read(slots + first * ROCATTACH_SLOT_BYTES, out.data(),
            run * ROCATTACH_SLOT_BYTES) ||
      !Read(slots, out.data() + run, (count - run) * ROCATTACH_SLOT_BYTES)) {
    position.corrupt = true;
    return 0;
  }
  position.tail += count;
  FreeTaken(index);
  return count;
}

}  // namespace rocattach
