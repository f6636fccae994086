// Per-thread single-producer rings in the shared memory.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COMMON_RING_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COMMON_RING_H_

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "userspace/abi/atomics.h"
#include "userspace/abi/sampling.h"
#include "userspace/collector/common/memory.h"

namespace rocattach::collector {

// One ring as its producer sees it. `head` and the geometry are private copies, so that
// nothing written by the other side can place a record outside of the ring.
struct RingProducer {
  rocattach_ring* shared = nullptr;
  uint8_t* slots = nullptr;
  uint64_t* dropped = nullptr;  // counter of losses
  uint64_t head = 0;
  uint64_t room_end = 0;  // there was room up to this position at the last check
  uint32_t slot_count = 0;
  uint32_t committed = 0;       // slots that can be written, see Commit() in memory.h
  uint32_t waited_in_vain = 0;  // 1: a wait for the shared ring's lock was in vain

  // Room for one 96-byte record, to be followed by Commit(). nullptr: the ring is full
  // and the loss is counted.
  void* Reserve() {
    if (Unlikely(head >= room_end) && !MakeRoom(1)) return nullptr;
    return slots + (head & (slot_count - 1)) * ROCATTACH_SLOT_BYTES;
  }
  void Commit() {
    ++head;
    StoreRelease(&shared->head, head);
  }

  // Writes `count` adjacent records atomically: the consumer sees all of
  // them or none. `fill(i, void*)` writes record i. False: they do not
  // fit, and one loss is counted.
  template <typename Fill>
  bool PushGroupWith(uint32_t count, Fill fill) {
    if (Unlikely(head + count > room_end) && !MakeRoom(count)) return false;
    for (uint32_t i = 0; i < count; ++i) {
      fill(i, slots + ((head + i) & (slot_count - 1)) * ROCATTACH_SLOT_BYTES);
    }
    head += count;
    StoreRelease(&shared->head, head);
    return true;
  }

  // Counts a record, or several that belong together, as lost. Threads that share a
  // ring do so without its lock.
  void CountDropped() { __atomic_fetch_add(dropped, uint64_t{1}, __ATOMIC_RELAXED); }

 private:
  // False if there is no room for `count` more records; the loss is counted.
  bool MakeRoom(uint32_t count);
  // Commits the slots before `end`; false if not all of them could be committed.
  bool CommitSlots(uint64_t end);
};

// The calling thread's access to a ring. Cheap to copy; valid as long as the thread
// runs.
class RingHandle {
 public:
  RingHandle() = default;
  RingHandle(RingProducer* producer, uint32_t tid, bool shared)
      : producer_(producer), tid_(tid), shared_(shared) {}

  bool valid() const { return producer_ != nullptr; }
  uint32_t tid() const { return tid_; }
  uint32_t slots() const { return producer_->slot_count; }

  // Publishes the 96-byte record that `fill(void*)` writes; false if it was dropped,
  // which counts in `dropped` only: the caller counts the kind of the operation.
  // `done()` is called in either case before another thread can publish in this ring.
  template <typename Fill, typename Done>
  bool PushWith(Fill fill, Done done) {
    if (Unlikely(shared_) && !LockShared()) return Lost(done);
    void* slot = producer_->Reserve();
    if (Likely(slot != nullptr)) {
      fill(slot);
      producer_->Commit();
    }
    done();
    if (Unlikely(shared_)) UnlockShared();
    return slot != nullptr;
  }
  template <typename Fill>
  bool PushWith(Fill fill) {
    return PushWith(fill, [] {});
  }
  bool Push(const void* record) {
    return PushWith(
        [record](void* slot) { memcpy(slot, record, ROCATTACH_SLOT_BYTES); });
  }

  // Publishes the record of a dispatch or copy. `entry` is its entry in the in-flight
  // table, or null if it has none.
  // 1. The entry is freed right after the record is published: if the process is killed
  //    in between, only the last operation of a ring can be in both places.
  // 2. A loss is counted after the entry is freed: a process that is killed in between
  //    leaves an operation that was only seen, never one that is counted twice.
  template <typename Fill>
  void PushOperation(Fill fill, uint64_t rocattach_ring::*dropped,
                     rocattach_inflight* entry) {
    const bool pushed = PushWith(fill, [entry] {
      if (entry != nullptr) StoreRelease(&entry->kind, uint16_t{ROCATTACH_RECORD_NONE});
    });
    if (Unlikely(!pushed)) Count(dropped, uint64_t{1});
  }
  void PushDispatch(const rocattach_dispatch& record, rocattach_inflight* entry) {
    PushOperation([&record](void* slot) { memcpy(slot, &record, sizeof(record)); },
                  &rocattach_ring::dispatches_dropped, entry);
  }
  void PushCopy(const rocattach_copy& record) {
    PushOperation([&record](void* slot) { memcpy(slot, &record, sizeof(record)); },
                  &rocattach_ring::copies_dropped, nullptr);
  }

  // The same for `count` records that belong together: `fill(i, void*)`.
  template <typename Fill, typename Done>
  bool PushGroupWith(uint32_t count, Fill fill, Done done) {
    if (Unlikely(shared_) && !LockShared()) return Lost(done);
    const bool pushed = producer_->PushGroupWith(count, fill);
    done();
    if (Unlikely(shared_)) UnlockShared();
    return pushed;
  }
  template <typename Fill>
  bool PushGroupWith(uint32_t count, Fill fill) {
    return PushGroupWith(count, fill, [] {});
  }
  template <typename Done>
  bool PushGroup(const void* records, uint32_t count, Done done) {
    auto* from = static_cast<const uint8_t*>(records);
    const auto fill = [from](uint32_t i, void* slot) {
      memcpy(slot, from + size_t{i} * ROCATTACH_SLOT_BYTES, ROCATTACH_SLOT_BYTES);
    };
    return PushGroupWith(count, fill, done);
  }
  bool PushGroup(const void* records, uint32_t count) {
    return PushGroup(records, count, [] {});
  }

  // Counts a dispatch as seen. True if `sampling` (userspace/abi/sampling.h) leaves it
  // out: then it is counted as sampled out as well.
  bool CountSeen(uint32_t sampling) {
    Count(&rocattach_ring::dispatches_seen, uint64_t{1});
    if (Likely(sampling <= ROCATTACH_SAMPLING_EVERY) ||
        rocattach_is_sampled(sampling, LoadRelaxed(&producer_->shared->dispatches_seen),
                             tid_)) {
      return false;
    }
    Count(&rocattach_ring::sampled_out, uint64_t{1});
    return true;
  }

  // Adds to one of the ring's account fields.
  template <typename T>
  void Count(T rocattach_ring::*field, T amount) {
    T* counter = &(producer_->shared->*field);
    if (Likely(!shared_)) {
      StoreRelaxed(counter, static_cast<T>(*counter + amount));
    } else {
      __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
    }
  }

 private:
  // False if another thread has held the lock for too long: that thread may get no CPU
  // while one with a real-time priority waits for it.
  bool LockShared() { return Likely(TryLockShared()) || WaitForShared(); }
  bool TryLockShared() {
    return __atomic_exchange_n(&producer_->shared->lock, 1u, __ATOMIC_ACQUIRE) == 0;
  }
  bool WaitForShared();
  void UnlockShared() {
    StoreRelaxed(&producer_->waited_in_vain, 0u);
    StoreRelease(&producer_->shared->lock, 0u);
  }

  template <typename Done>
  bool Lost(Done done) {
    producer_->CountDropped();
    done();
    return false;
  }

  RingProducer* producer_ = nullptr;
  uint32_t tid_ = 0;
  bool shared_ = false;
};

// All rings. A thread claims one on its first record and returns it when it ends; when
// all but the last are taken, the others share the last one.
class RingSet {
 public:
  // 0 or an errno value.
  int Init(Memory* memory);

  // The calling thread's ring. Claims one again after the thread-specific destructor
  // has run. If there is no memory for a ring, everything is dropped, and counted in
  // `other_dropped`; the next call tries again.
  RingHandle Mine() {
    auto value = reinterpret_cast<uintptr_t>(pthread_getspecific(key_));
    if (Likely(value != 0)) return Decode(value);
    return Claim();
  }

  // Refreshes the sums in the control block.
  void UpdateTotals();

  // Records dropped so far, in all rings.
  uint64_t Dropped() const;

  // Drops the producers' state; for a forked child, which is initialised again.
  void Forget() { producers_ = nullptr; }

 private:
  // Thread-specific value: own ring: (index + 1) << 32 | tid; shared: kShared | tid.
  static constexpr uintptr_t kShared = uintptr_t{1} << 63;
  RingHandle Decode(uintptr_t value) {
    auto tid = static_cast<uint32_t>(value);
    if (Unlikely((value & kShared) != 0)) return {&producers_[count_ - 1], tid, true};
    return {&producers_[(value >> 32) - 1], tid, false};
  }
  RingHandle Claim();
  // Makes the calling thread share the last ring.
  RingHandle Share(uint32_t tid);
  // True if the first page of the ring can be accessed.
  bool HasHeader(uint32_t index);
  static void Release(void* value);
  // Marks ring `index` as used, before its first record.
  void MarkUsed(uint32_t index);
  uint32_t used() const { return LoadAcquire(&used_); }

  Memory* memory_ = nullptr;
  RingProducer* producers_ = nullptr;
  uint32_t count_ = 0;
  uint32_t used_ = 0;  // rings below this number have been claimed
  pthread_key_t key_ = 0;
  bool key_made_ = false;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COMMON_RING_H_
