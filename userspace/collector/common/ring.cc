#include "userspace/collector/common/ring.h"

namespace rocattach::collector {
namespace {

// The set to which Release() returns rings: a thread-specific destructor gets only the
// value. There is one set per process; unit tests create several, one after another.
RingSet* g_release_set = nullptr;

uint32_t CurrentTid() {
  return static_cast<uint32_t>(syscall(SYS_gettid));
}

}  // namespace

int RingSet::Init(Memory* memory) {
  memory_ = memory;
  const Geometry& g = memory->geometry();
  auto* producers =
      static_cast<RingProducer*>(AllocatePrivate(g.ring_count * sizeof(RingProducer)));
  if (producers == nullptr) return ENOMEM;
  for (uint32_t i = 0; i < g.ring_count; ++i) {
    producers[i] = RingProducer();
    producers[i].shared = memory->ring(i);
    producers[i].slots =
        reinterpret_cast<uint8_t*>(memory->ring(i)) + ROCATTACH_RING_HEADER_BYTES;
    producers[i].slot_count = g.ring_slots;
  }
  if (!key_made_) {
    int error = pthread_key_create(&key_, &RingSet::Release);
    if (error != 0) return error;
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

void RingSet::NoteUsed(uint32_t index) {
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

RingHandle RingSet::Claim() {
  uint32_t tid = CurrentTid();
  for (uint32_t i = 0; i + 1 < count_; ++i) {
    uint32_t expected = 0;
    uint32_t* owner = &producers_[i].shared->owner_tid;
    if (LoadRelaxed(owner) != 0) continue;
    // Acquire: `head` as the previous owner left it.
    if (!__atomic_compare_exchange_n(owner, &expected, tid, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED)) {
      continue;
    }
    NoteUsed(i);
    uintptr_t value = (uintptr_t{i + 1} << 32) | tid;
    if (pthread_setspecific(key_, reinterpret_cast<void*>(value)) == 0) {
      return Decode(value);
    }
    StoreRelease(owner, 0u);
    break;
  }
  // The service gives up a memory in which a ring is in use whose page was never
  // written. Those before the last one have an owner, unless there was no memory for the
  // thread's value.
  for (uint32_t i = 0; i + 1 < count_; ++i) {
    __atomic_fetch_or(&producers_[i].shared->owner_tid, 0u, __ATOMIC_RELAXED);
  }
  StoreRelaxed(&producers_[count_ - 1].shared->owner_tid, tid);
  NoteUsed(count_ - 1);
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
