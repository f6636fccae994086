#include "userspace/record/drain/record_slot.h"

#include "userspace/abi/inflight.h"

namespace rocattach {

RecordSlot SlotOfUnfinished(const rocattach_inflight& entry) {
  constexpr collector::OperationEnd kNoEnd;
  RecordSlot slot;
  if (entry.kind == ROCATTACH_RECORD_COPY) {
    rocattach_copy record;
    collector::UnpackCopy(entry, kNoEnd, &record);
    memcpy(slot.bytes, &record, sizeof(record));
  } else {
    rocattach_dispatch record;
    collector::UnpackDispatch(entry, kNoEnd, &record);
    memcpy(slot.bytes, &record, sizeof(record));
  }
  return slot;
}

}  // namespace rocattach
