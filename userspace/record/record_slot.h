// A record as it is in the ring of a collector.
#ifndef ROCATTACH_USERSPACE_RECORD_RECORD_SLOT_H_
#define ROCATTACH_USERSPACE_RECORD_RECORD_SLOT_H_

#include <string.h>

#include <cstdint>

#include "userspace/abi/shared_memory.h"

namespace rocattach {

// Raw 96-byte slot; its first 16 bits give the kind of record.
struct RecordSlot {
  alignas(8) uint8_t bytes[ROCATTACH_SLOT_BYTES];
  uint16_t kind() const {
    uint16_t value;
    memcpy(&value, bytes, sizeof(value));
    return value;
  }
};

// A dispatch or copy that was captured and has no end; `entry` is a copy of the target's
// entry, which cannot change any more.
RecordSlot SlotOfUnfinished(const rocattach_inflight& entry);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_RECORD_SLOT_H_
