// A record as it is in a collector's ring.
#ifndef ROCATTACH_USERSPACE_RECORD_DRAIN_RECORD_SLOT_H_
#define ROCATTACH_USERSPACE_RECORD_DRAIN_RECORD_SLOT_H_

#include <string.h>

#include <cstdint>

#include "userspace/abi/shared_memory.h"

namespace rocattach {

// Raw 96-byte slot; its first 16 bits give the kind of record. In a ring (see
// CollectorMemory::View) the target may change it at any time.
struct RecordSlot {
  alignas(8) uint8_t bytes[ROCATTACH_SLOT_BYTES];
  uint16_t kind() const {
    return __atomic_load_n(reinterpret_cast<const uint16_t*>(bytes), __ATOMIC_RELAXED);
  }
};

// Call this after copying out of a ring. It keeps the compiler, which may take the copy
// and the ring for equal, from reading the ring again instead of the copy.
inline void EndOfCopy() {
  asm volatile("" ::: "memory");
}

// Copies a record out of a slot, by its type.
template <typename T>
T CopyOf(const RecordSlot& slot) {
  T record;
  static_assert(sizeof(record) == sizeof(slot.bytes));
  memcpy(&record, slot.bytes, sizeof(record));
  EndOfCopy();
  return record;
}

// The record of a dispatch or copy that was captured and has no end; `entry` is a copy
// of the target's entry, which can no longer change.
RecordSlot SlotOfUnfinished(const rocattach_inflight& entry);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRAIN_RECORD_SLOT_H_
