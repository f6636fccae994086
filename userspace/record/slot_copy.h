// A record of a target's memory, by its type.
#ifndef ROCATTACH_USERSPACE_RECORD_SLOT_COPY_H_
#define ROCATTACH_USERSPACE_RECORD_SLOT_COPY_H_

#include <string.h>

#include "userspace/record/collector_memory.h"

namespace rocattach {

template <typename T>
T CopyOf(const RecordSlot& slot) {
  T record;
  static_assert(sizeof(record) == sizeof(slot.bytes));
  memcpy(&record, slot.bytes, sizeof(record));
  EndOfCopy();
  return record;
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_SLOT_COPY_H_
