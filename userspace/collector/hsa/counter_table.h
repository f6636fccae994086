// Counters by key, each on a cache line of its own.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_COUNTER_TABLE_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_COUNTER_TABLE_H_

#include <stdint.h>

#include "userspace/abi/atomics.h"

namespace rocattach::collector {

// Lookup takes no lock. Entries are never freed, so a key stays where it
// was found. Keys are not 0.
class CounterTable {
 public:
  static constexpr uint32_t kMax = 4096;

  // nullptr if there is no such key.
  uint32_t* Find(uint64_t key) {
    if (Unlikely(key == 0)) return nullptr;
    const uint32_t first = Hash(key);
    for (uint32_t i = first; i != first + kSlots; ++i) {
      Entry& entry = entries_[i % kSlots];
      const uint64_t known = LoadAcquire(&entry.key);
      if (Likely(known == key)) return &entry.count;
      if (known == 0) break;
    }
    return nullptr;
  }

  // The key's counter, 0 if the key is new; nullptr if there are too many keys.
  uint32_t* FindOrAdd(uint64_t key) {
    if (uint32_t* known = Find(key)) return known;
    TinyLockHolder hold(lock_);
    if (uint32_t* known = Find(key)) return known;
    if (used_ == kMax || key == 0) return nullptr;
    uint32_t i = Hash(key);
    while (entries_[i % kSlots].key != 0) ++i;
    // List the entry first: no thread may count in one that is not listed.
    list_[used_] = static_cast<uint16_t>(i % kSlots);
    StoreRelease(&used_, used_ + 1);
    StoreRelease(&entries_[i % kSlots].key, key);
    return &entries_[i % kSlots].count;
  }

  uint32_t Sum() const {
    uint32_t sum = 0;
    const uint32_t used = LoadAcquire(&used_);
    for (uint32_t i = 0; i < used; ++i) {
      sum += __atomic_load_n(&entries_[list_[i]].count, __ATOMIC_SEQ_CST);
    }
    return sum;
  }

  // Sets the counters of all keys for which `wanted(key)` is true to 0.
  template <typename Wanted>
  void Clear(Wanted wanted) {
    const uint32_t used = LoadAcquire(&used_);
    for (uint32_t i = 0; i < used; ++i) {
      Entry& entry = entries_[list_[i]];
      if (wanted(LoadAcquire(&entry.key))) StoreRelaxed(&entry.count, 0u);
    }
  }

  // In a forked child: a thread that does not exist here may have held the lock.
  void StartAnewInChild() {
    lock_ = TinyLock();
    Clear([](uint64_t) { return true; });
  }

 private:
  struct alignas(64) Entry {
    uint64_t key;
    uint32_t count;
  };
  // Twice as many slots as keys, so that a search always ends at a free one.
  static constexpr uint32_t kSlots = 2 * kMax;

  static uint32_t Hash(uint64_t key) {
    return static_cast<uint32_t>((key * 0x9e3779b97f4a7c15u) >> 40);
  }

  TinyLock lock_;
  uint32_t used_ = 0;
  uint16_t list_[kMax] = {};
  Entry entries_[kSlots] = {};
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_COUNTER_TABLE_H_
