// A record as it is in the ring of a collector.
#ifndef ROCATTACH_USERSPACE_RECORD_RECORD_SLOT_H_
#define ROCATTACH_USERSPACE_RECORD_RECORD_SLOT_H_

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

// After a copy out of a ring: what is read from the copy must not be read from the ring
// again, as a compiler may do that takes both for equal.
inline void EndOfCopy() {
  asm volatile("" ::: "memory");
}

// A dispatch or copy that was captured and has no end; `entry` is a copy of the target's
// entry, which cannot change any more.
RecordSlot SlotOfUnfinished(const rocattach_inflight& entry);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_RECORD_SLOT_H_
