// The slots of a dispatch's values, checked and copied at once.
#ifndef ROCATTACH_USERSPACE_RECORD_VALUE_SLOTS_H_
#define ROCATTACH_USERSPACE_RECORD_VALUE_SLOTS_H_

#include <emmintrin.h>
#include <string.h>

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "userspace/abi/records.h"
#include "userspace/record/collector_memory.h"

namespace rocattach {

// What precedes the values in a slot, as words: kind, slots, slot and count; correlation
// id; generation; pass, agent, of and instance_slots.
struct ValueSlotHead {
  explicit ValueSlotHead(const RecordSlot& slot) {
    memcpy(words, slot.bytes, sizeof(words));
  }
  // That of no slot of a plan in force.
  ValueSlotHead() : words{0, 0, ~uint64_t{0}, 0} {}

  size_t slots() const { return words[0] >> 16 & 0xffff; }
  // How many values are in the slot.
  size_t count() const { return words[0] >> 48; }
  uint64_t correlation_id() const { return words[1]; }
  uint64_t plan_generation() const { return words[2]; }
  uint16_t pass() const { return static_cast<uint16_t>(words[3]); }
  uint16_t agent_id() const { return static_cast<uint16_t>(words[3] >> 16); }

  uint64_t words[4];
};
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

// Whether all values are of one of so many counters, and of at least one instance.
inline bool AreValid(const rocattach_counter_value* values, size_t count,
                     size_t counters) {
  for (size_t i = 0; i < count; ++i) {
    if (values[i].counter >= counters || values[i].instances == 0) return false;
  }
  return true;
}

// Copies full slots, two values each, and remembers whether all of them agree with what
// is expected.
class FullSlotCopier {
 public:
  // `first`: the head of the first slot. Values are of one of `counters` counters.
  FullSlotCopier(const ValueSlotHead& first, size_t counters)
      : common_(Words(first.words[2], first.words[3])),
        correlation_id_(first.words[1]),
        last_counter_(Words((counters - 1) & 0xffffffff, (counters - 1) & 0xffffffff)) {
  }

  // `head`: the slot's first word as it should be.
  void Copy(const RecordSlot& from, uint64_t head, rocattach_counter_value* to) {
    const uint8_t* const slot = from.bytes;
    const __m128i heads = _mm_xor_si128(Load(slot), Words(head, correlation_id_));
    const __m128i rest = _mm_xor_si128(Load(slot + 16), common_);
    const __m128i one = Load(slot + 32), two = Load(slot + 64);
    auto* const out = reinterpret_cast<__m128i*>(to);
    _mm_storeu_si128(out, one);
    _mm_storeu_si128(out + 1, Load(slot + 48));
    _mm_storeu_si128(out + 2, two);
    _mm_storeu_si128(out + 3, Load(slot + 80));
    // Of each value the counter and, in the other half, the number of instances.
    const __m128i tags = _mm_unpacklo_epi64(one, two);
    const __m128i counters = _mm_and_si128(tags, Words(0xffff, 0xffff));
    const __m128i unknown = _mm_cmpgt_epi32(counters, last_counter_);
    const __m128i none = _mm_and_si128(_mm_cmpeq_epi32(tags, _mm_setzero_si128()),
                                       Words(kUpperHalf, kUpperHalf));
    bad_ = _mm_or_si128(
        bad_, _mm_or_si128(_mm_or_si128(heads, rest), _mm_or_si128(unknown, none)));
  }

  bool ok() const {
    return _mm_movemask_epi8(_mm_cmpeq_epi8(bad_, _mm_setzero_si128())) == 0xffff;
  }

 private:
  static constexpr uint64_t kUpperHalf = uint64_t{0xffffffff} << 32;

  static __m128i Words(uint64_t low, uint64_t high) {
    return _mm_set_epi64x(static_cast<int64_t>(high), static_cast<int64_t>(low));
  }
  static __m128i Load(const uint8_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  }

  const __m128i common_;
  const uint64_t correlation_id_;
  const __m128i last_counter_;  // in the lower halves; the upper ones are 0
  __m128i bad_ = _mm_setzero_si128();
};

// Copies the values of all slots, of which there is at least one, to `to`, which has
// room for two of each slot. Returns how many they are; 0 if the heads do not agree with
// that of the first slot, if any but the last has fewer than two, or if a value is not
// of one of `counters` counters. This runs for every counted dispatch.
inline size_t CopyValues(absl::Span<const RecordSlot> slots, size_t counters,
                         rocattach_counter_value* to) {
  static_assert(ROCATTACH_VALUES_PER_SLOT == 2);
  if (counters == 0) return 0;
  const ValueSlotHead first(slots.front());
  uint64_t head = (first.words[0] & 0xffffffff) | uint64_t{2} << 48;
  FullSlotCopier full(first, counters);
  for (const RecordSlot& slot : slots.first(slots.size() - 1)) {
    full.Copy(slot, head, to);
    head += uint64_t{1} << 32;  // the next slot's number
    to += 2;
  }
  const ValueSlotHead last(slots.back());
  const size_t count = last.count();
  // All but how many values it has.
  const uint64_t differ =
      (last.words[0] ^ head) << 16 | (last.words[1] ^ first.words[1]) |
      (last.words[2] ^ first.words[2]) | (last.words[3] ^ first.words[3]);
  if (!full.ok() || differ != 0 || count == 0 || count > 2) return 0;
  memcpy(static_cast<void*>(to), slots.back().bytes + sizeof(last),
         sizeof(rocattach_values::value));
  if (!AreValid(to, count, counters)) return 0;
  return 2 * (slots.size() - 1) + count;
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_VALUE_SLOTS_H_
