#include "userspace/collector/common/ring.h"

namespace rocattach::collector {
namespace {

// The set to which Release() returns rings: a thread-specific destructor gets only the
// value. There is one set per process; unit tests create several, one after another.
RingSet* g_release_set = nullptr;

uint32_t CurrentTid() {
  return static_cast<uint32_t>(syscall(SYS_gettid));
}

// The lock of the shared ring is held for well under a microsecond, unless its holder
// has lost the CPU.
constexpr uint32_t kSpins = 200;
constexpr uint32_t kNaps = 1000;
constexpr long kNapNs = 100'000;

}  // namespace

bool RingProducer::CommitSlots(uint64_t end) {
  constexpr uint32_t kSlots = kCommitBytes / ROCATTACH_SLOT_BYTES;
  if (end > slot_count) end = slot_count;
  while (committed < end) {
    const uint32_t left = slot_count - committed;
    const uint32_t step = left < kSlots ? left : kSlots;
    if (!collector::Commit(slots + size_t{committed} * ROCATTACH_SLOT_BYTES,
                           size_t{step} * ROCATTACH_SLOT_BYTES)) {
      return false;
    }
    committed += step;
  }
  return true;
}

// Slots are uncommitted only during the first round through the ring.
bool RingProducer::MakeRoom(uint32_t count) {
  const uint64_t tail = LoadAcquire(&shared->tail);
  const uint64_t used = head - tail;
  // An invalid tail also counts as full.
  if (used > slot_count || count > slot_count - used || !CommitSlots(head + count)) {
    CountDropped();
    return false;
  }
  room_end = tail + slot_count;
  if (committed < slot_count && committed < room_end) room_end = committed;
  return true;
}

// Sleeps between tries, or a real-time thread would keep the CPU from the holder. Once
// one thread has waited in vain, others do not wait until the holder continues.
bool RingHandle::WaitForShared() {
  for (uint32_t i = 0; i < kSpins; ++i) {
    __builtin_ia32_pause();
    if (TryLockShared()) return true;
  }
  uint32_t* in_vain = &producer_->waited_in_vain;
  for (uint32_t i = 0; i < kNaps && LoadRelaxed(in_vain) == 0; ++i) {
    timespec nap = {0, kNapNs};
    (void)syscall(SYS_nanosleep, &nap, nullptr);
    if (TryLockShared()) return true;
  }
  StoreRelaxed(in_vain, 1u);
  return false;
}

int RingSet::Init(Memory* memory) {
  memory_ = memory;
  const Geometry& g = memory->geometry();
  auto* producers = static_cast<RingProducer*>(
      AllocatePrivate((g.ring_count + 1) * sizeof(RingProducer)));
  // The substitute for a ring has a header that is never read.
  auto* nowhere = static_cast<rocattach_ring*>(AllocatePrivate(sizeof(rocattach_ring)));
  if (producers == nullptr || nowhere == nullptr) {
    return Failed(ROCATTACH_SETUP_MMAP, ENOMEM);
  }
  if (!Commit(memory->ring(g.ring_count - 1), 1)) {
    return Failed(ROCATTACH_SETUP_COMMIT, ENOMEM);
  }
  producers[g.ring_count] = RingProducer();
  producers[g.ring_count].shared = nowhere;
  producers[g.ring_count].dropped = &memory->control()->other_dropped;
  for (uint32_t i = 0; i < g.ring_count; ++i) {
    producers[i] = RingProducer();
    producers[i].shared = memory->ring(i);
    producers[i].dropped = &memory->ring(i)->dropped;
    producers[i].slots =
        reinterpret_cast<uint8_t*>(memory->ring(i)) + ROCATTACH_RING_HEADER_BYTES;
    producers[i].slot_count = g.ring_slots;
  }
  if (!key_made_) {
    int error = pthread_key_create(&key_, &RingSet::Release);
    if (error != 0) return Failed(ROCATTACH_SETUP_KEY_CREATE, error);
    key_made_ = true;
  }
  // A forked child is initialised again with the forking thread's value still set.
  pthread_setspecific(key_, nullptr);
  producers_ = producers;
  count_ = g.ring_count;
  used_ = 0;
  StoreRelease(&g_release_set, this);
  return 0;
}

void RingSet::MarkUsed(uint32_t index) {
  uint32_t used = LoadAcquire(&used_);
  while (used <= index &&
         !__atomic_compare_exchange_n(&used_, &used, index + 1, false, __ATOMIC_ACQ_REL,
                                      __ATOMIC_ACQUIRE)) {
  }
  // Two threads may get here in either order: the larger number must remain.
  uint32_t* shared = &memory_->control()->rings_used;
  uint32_t known = LoadAcquire(shared);
  while (known <= index &&
         !__atomic_compare_exchange_n(shared, &known, index + 1, false,
                                      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
  }
}

// Rings that have been in use have an accessible header.
bool RingSet::HasHeader(uint32_t index) {
  return index < used() || Commit(memory_->ring(index), 1);
}

RingHandle RingSet::Claim() {
  uint32_t tid = CurrentTid();
  for (uint32_t i = 0; i + 1 < count_; ++i) {
    if (!HasHeader(i)) return {&producers_[count_], tid, true};
    uint32_t expected = 0;
    uint32_t* owner = &producers_[i].shared->owner_tid;
    if (LoadRelaxed(owner) != 0) continue;
    // Acquire: `head` as the previous owner left it.
    if (!__atomic_compare_exchange_n(owner, &expected, tid, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED)) {
      continue;
    }
    MarkUsed(i);
    uintptr_t value = (uintptr_t{i + 1} << 32) | tid;
    if (pthread_setspecific(key_, reinterpret_cast<void*>(value)) == 0) {
      return Decode(value);
    }
    StoreRelease(owner, 0u);
    break;
  }
  return Share(tid);
}

RingHandle RingSet::Share(uint32_t tid) {
  // The service stops reading a process's memory if a ring in use has a page that was
  // never written. Rings before the last one have an owner, unless there was no
  // memory for the thread's value.
  for (uint32_t i = 0; i + 1 < count_; ++i) {
    if (!HasHeader(i)) return {&producers_[count_], tid, true};
  }
  StoreRelaxed(&producers_[count_ - 1].shared->owner_tid, tid);
  MarkUsed(count_ - 1);
  uintptr_t value = kShared | tid;
  pthread_setspecific(key_, reinterpret_cast<void*>(value));
  return Decode(value);
}

void RingSet::Release(void* value) {
  auto bits = reinterpret_cast<uintptr_t>(value);
  RingSet* set = LoadAcquire(&g_release_set);
  if (set == nullptr || set->producers_ == nullptr || (bits & kShared) != 0) return;
  // Threads of a forked child end here too, and see the parent's rings: only the owner
  // of a ring returns it.
  uint32_t expected = static_cast<uint32_t>(bits);
  if (expected != CurrentTid()) return;
  uint32_t* owner = &set->producers_[(bits >> 32) - 1].shared->owner_tid;
  __atomic_compare_exchange_n(owner, &expected, 0u, false, __ATOMIC_RELEASE,
                              __ATOMIC_RELAXED);
}

void RingSet::UpdateTotals() {
  uint64_t dispatches = 0, copies = 0, untimed = 0, unseen = 0;
  for (uint32_t i = 0, end = used(); i < end; ++i) {
    const rocattach_ring* ring = producers_[i].shared;
    dispatches += LoadRelaxed(&ring->dispatches_seen);
    copies += LoadRelaxed(&ring->copies_seen);
    untimed += LoadRelaxed(&ring->dispatches_untimed);
    unseen += LoadRelaxed(&ring->packets_unseen);
  }
  rocattach_control* c = memory_->control();
  StoreRelaxed(&c->dispatches_seen, dispatches);
  StoreRelaxed(&c->copies_seen, copies);
  StoreRelaxed(&c->dispatches_untimed, untimed);
  StoreRelaxed(&c->packets_unseen, unseen);
}

uint64_t RingSet::Dropped() const {
  uint64_t dropped = 0;
  for (uint32_t i = 0, end = used(); i < end; ++i) {
    dropped += LoadRelaxed(&producers_[i].shared->dropped);
  }
  return dropped;
}

}  // namespace rocattach::collector
