// Kernel object address -> kernel id, read without a lock on every dispatch.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COMMON_KERNEL_TABLE_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COMMON_KERNEL_TABLE_H_

#include <stdint.h>

#include "userspace/abi/atomics.h"
#include "userspace/collector/common/memory.h"

namespace rocattach::collector {

// Open addressing with linear probing. Writers are serialised; a table that fills up is
// replaced by one of twice the size and left as it is for readers that still walk it.
class KernelTable {
 public:
  // 0 if the kernel is not known.
  uint32_t Find(uint64_t kernel_object) const {
    const Table* table = LoadAcquire(&table_);
    if (table == nullptr) return 0;
    for (uint32_t i = Hash(kernel_object);; ++i) {
      const Slot& slot = table->slots[i & table->mask];
      uint64_t key = LoadAcquire(&slot.key);
      if (Likely(key == kernel_object)) return LoadRelaxed(&slot.id);
      if (key == 0) return 0;
    }
  }

  // Adds a kernel or gives a known address a new id. False: out of memory.
  bool Insert(uint64_t kernel_object, uint32_t id) {
    if (kernel_object == 0) return false;
    TinyLockHolder hold(lock_);
    if (!Reserve()) return false;
    Put(table_, kernel_object, id);
    return true;
  }

  // Forgets an address; its slot is kept and reused if the address comes back.
  void Erase(uint64_t kernel_object) {
    TinyLockHolder hold(lock_);
    if (table_ == nullptr) return;
    for (uint32_t i = Hash(kernel_object);; ++i) {
      Slot& slot = table_->slots[i & table_->mask];
      if (slot.key == 0) return;
      if (slot.key != kernel_object) continue;
      StoreRelaxed(&slot.id, 0u);
      return;
    }
  }

  // Forgets all addresses.
  void EraseAll() {
    TinyLockHolder hold(lock_);
    for (uint32_t i = 0; table_ != nullptr && i <= table_->mask; ++i) {
      StoreRelaxed(&table_->slots[i].id, 0u);
    }
  }

  void Forget() { StoreRelease(&table_, static_cast<Table*>(nullptr)); }

 private:
  struct Slot {
    uint64_t key;  // 0: never used
    uint32_t id;   // 0: erased
    uint32_t pad;
  };
  struct Table {
    uint32_t mask;
    uint32_t used;  // slots with a key
    Slot slots[];
  };
  static constexpr uint32_t kFirstSlots = 1024;

  // Kernel objects are 64-byte aligned addresses.
  static uint32_t Hash(uint64_t key) {
    return static_cast<uint32_t>((key * 0x9e3779b97f4a7c15u) >> 32);
  }

  static void Put(Table* table, uint64_t key, uint32_t id) {
    for (uint32_t i = Hash(key);; ++i) {
      Slot& slot = table->slots[i & table->mask];
      if (slot.key != 0 && slot.key != key) continue;
      if (slot.key == 0) ++table->used;
      StoreRelaxed(&slot.id, id);
      StoreRelease(&slot.key, key);
      return;
    }
  }

  // Makes sure that one more key fits with a quarter of the slots to spare.
  bool Reserve() {
    if (table_ != nullptr && (table_->used + 1) * 4 <= (table_->mask + 1) * 3) {
      return true;
    }
    uint32_t slots = table_ == nullptr ? kFirstSlots : 2 * (table_->mask + 1);
    auto* table = static_cast<Table*>(
        AllocatePrivate(sizeof(Table) + uint64_t{slots} * sizeof(Slot)));
    if (table == nullptr) return false;
    table->mask = slots - 1;
    for (uint32_t i = 0; table_ != nullptr && i <= table_->mask; ++i) {
      const Slot& slot = table_->slots[i];
      if (slot.key != 0 && slot.id != 0) Put(table, slot.key, slot.id);
    }
    StoreRelease(&table_, table);
    return true;
  }

  Table* table_ = nullptr;
  TinyLock lock_;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COMMON_KERNEL_TABLE_H_
