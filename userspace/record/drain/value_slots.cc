#include "userspace/record/drain/value_slots.h"

#include <string.h>

namespace rocattach {

size_t CopyValues(const ValueSlotHead& first, absl::Span<const RecordSlot> slots,
                  size_t counters, rocattach_counter_value* to) {
  rocattach_counter_value* out = to;
  for (size_t i = 0; i < slots.size(); ++i) {
    const ValueSlotHead head(slots[i]);
    const uint64_t count = head.shape >> 48;
    const bool is_last = i + 1 == slots.size();
    const bool has_count =
        count == ROCATTACH_VALUES_PER_SLOT || (is_last && count != 0 && count < 2);
    const uint64_t shape = (first.shape & 0xffffffff) | uint64_t{i} << 32 | count << 48;
    if (!has_count || head.shape != shape || head.operation != first.operation ||
        head.generation != first.generation || head.rest != first.rest) {
      return 0;
    }
    // Always two, of which the second may not count: quicker than a length.
    memcpy(static_cast<void*>(out), slots[i].bytes + sizeof(head),
           ROCATTACH_VALUES_PER_SLOT * sizeof(*out));
    EndOfCopy();
    if (!AreValid(out, count, counters)) return 0;
    out += count;
  }
  return static_cast<size_t>(out - to);
}

}  // namespace rocattach
