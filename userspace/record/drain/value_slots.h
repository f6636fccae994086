// Checks and copies the slots of a dispatch's values at once.
#ifndef ROCATTACH_USERSPACE_RECORD_DRAIN_VALUE_SLOTS_H_
#define ROCATTACH_USERSPACE_RECORD_DRAIN_VALUE_SLOTS_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "userspace/abi/records.h"
#include "userspace/record/drain/record_slot.h"

namespace rocattach {

// The words that precede the values in a slot, read once.
struct ValueSlotHead {
  explicit ValueSlotHead(const RecordSlot& slot)
      : shape(WordOf(slot, 0)),
        operation(WordOf(slot, 1)),
        generation(WordOf(slot, 2)),
        rest(WordOf(slot, 3)) {}
  // Matches no slot of a plan in force.
  ValueSlotHead() : shape(0), operation(0), generation(~uint64_t{0}), rest(0) {}

  static uint64_t WordOf(const RecordSlot& slot, size_t index) {
    return __atomic_load_n(reinterpret_cast<const uint64_t*>(slot.bytes) + index,
                           __ATOMIC_RELAXED);
  }
  size_t slots() const { return shape >> 16 & 0xffff; }
  uint16_t pass() const { return static_cast<uint16_t>(rest); }
  uint16_t agent_id() const { return static_cast<uint16_t>(rest >> 16); }

  uint64_t shape;      // kind, number of slots, slot, number of values in it
  uint64_t operation;  // correlation id
  uint64_t generation;
  uint64_t rest;  // pass, agent, of and instance_slots
};
static_assert(sizeof(ValueSlotHead) == offsetof(rocattach_values, value));
static_assert(offsetof(rocattach_values, kind) == 0);
static_assert(offsetof(rocattach_values, slots) == 2);
static_assert(offsetof(rocattach_values, slot) == 4);
static_assert(offsetof(rocattach_values, count) == 6);
static_assert(offsetof(rocattach_values, correlation_id) == 8);
static_assert(offsetof(rocattach_values, plan_generation) == 16);
static_assert(offsetof(rocattach_values, pass) == 24);
static_assert(offsetof(rocattach_values, agent_id) == 26);
static_assert(offsetof(rocattach_values, value) == 32);
static_assert(sizeof(rocattach_counter_value) == 32);
static_assert(offsetof(rocattach_counter_value, counter) == 0);
static_assert(offsetof(rocattach_counter_value, instances) == 4);
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

// True if all values are of one of `counters` counters, and of at least one instance.
inline bool AreValid(const rocattach_counter_value* values, size_t count,
                     size_t counters) {
  for (size_t i = 0; i < count; ++i) {
    if (values[i].counter >= counters || values[i].instances == 0) return false;
  }
  return true;
}

// Copies the values of all slots, of which there is at least one, to `to`, which has
// room for two of each slot. `first`: the head of the first slot, as it was read.
// Returns the number of values; 0 if the heads do not agree with the first one, if any
// slot but the last has fewer than two values, or if a value is not of one of
// `counters` counters. The slots may be in a ring: each word is read once. Runs for every counted dispatch.
size_t CopyValues(const ValueSlotHead& first, absl::Span<const RecordSlot> slots,
                  size_t counters, rocattach_counter_value* to);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRAIN_VALUE_SLOTS_H_
