#include "userspace/record/value_slots.h"

#include <immintrin.h>
#include <string.h>

#include <algorithm>

#include "userspace/base/cpu_features.h"

namespace rocattach {
namespace {

// To the first word of the next slot.
constexpr uint64_t kNextSlot = uint64_t{1} << 32;

// Copies full slots, two values each, and remembers whether all of them agree with what
// is expected.
class FullSlotCopier {
 public:
  // `first`: the head of the first slot. Values are of one of `counters` counters.
  FullSlotCopier(const ValueSlotHead& first, size_t counters)
      : common_(Words(first.generation, first.rest)),
        correlation_id_(first.operation),
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
    __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    asm("" : "+x"(words));  // is not read again
    return words;
  }

  const __m128i common_;
  const uint64_t correlation_id_;
  const __m128i last_counter_;  // in the lower halves; the upper ones are 0
  __m128i bad_ = _mm_setzero_si128();
};

// The same with three words of 32 bytes a slot.
class WideSlotCopier {
 public:
  // `head`: the first word of the first slot as it should be.
  ROCATTACH_AVX2 WideSlotCopier(const ValueSlotHead& first, uint64_t head,
                                size_t counters)
      : expected_(_mm256_set_epi64x(
            static_cast<int64_t>(first.rest), static_cast<int64_t>(first.generation),
            static_cast<int64_t>(first.operation), static_cast<int64_t>(head))),
        last_counter_(_mm256_set1_epi64x(
            static_cast<int64_t>(std::min<size_t>(counters - 1, 0xffff)))),
        least_(_mm256_set1_epi64x(-1)) {}

  ROCATTACH_AVX2 void CopyNext(const RecordSlot& from, rocattach_counter_value* to) {
    const __m256i head = Load(from.bytes);
    const __m256i one = Load(from.bytes + 32), two = Load(from.bytes + 64);
    auto* const out = reinterpret_cast<__m256i*>(to);
    _mm256_storeu_si256(out, one);
    _mm256_storeu_si256(out + 1, two);
    bad_heads_ = _mm256_or_si256(bad_heads_, _mm256_xor_si256(head, expected_));
    expected_ = _mm256_add_epi64(
        expected_, _mm256_set_epi64x(0, 0, 0, static_cast<int64_t>(kNextSlot)));
    // The first words of both values, in the lower half: counter and instances.
    const __m256i tags = _mm256_unpacklo_epi64(one, two);
    greatest_ = _mm256_max_epu16(greatest_, tags);
    least_ = _mm256_min_epu32(least_, tags);
  }

  ROCATTACH_AVX2 bool ok() const {
    const __m256i unknown = _mm256_and_si256(
        _mm256_subs_epu16(greatest_, last_counter_), _mm256_set1_epi64x(0xffff));
    const __m256i none =
        _mm256_and_si256(_mm256_cmpeq_epi32(least_, _mm256_setzero_si256()),
                         _mm256_set1_epi64x(static_cast<int64_t>(kUpperHalf)));
    const __m128i bad = _mm256_castsi256_si128(_mm256_or_si256(unknown, none));
    return _mm256_testz_si256(bad_heads_, bad_heads_) != 0 &&
           _mm_testz_si128(bad, bad) != 0;
  }

 private:
  static constexpr uint64_t kUpperHalf = uint64_t{0xffffffff} << 32;

  ROCATTACH_AVX2 static __m256i Load(const uint8_t* from) {
    // In one piece, see whole_values_avx2.cc.
    __m256i words = _mm256_lddqu_si256(reinterpret_cast<const __m256i*>(from));
    asm("" : "+x"(words));  // is not read again
    return words;
  }

  __m256i expected_;
  const __m256i last_counter_;
  __m256i bad_heads_ = {};
  // Of the words of the values: of each part the greatest and the least one.
  __m256i greatest_ = {}, least_;
};

// What every full slot begins with, but for its number.
uint64_t HeadOfFullSlots(const ValueSlotHead& first) {
  return (first.shape & 0xffffffff) | uint64_t{2} << 48;
}

bool IsFull(const RecordSlot& slot) {
  return ValueSlotHead::WordOf(slot, 0) >> 48 == 2;
}

// Copies the only value of the last slot, whose head should be `head` but for how many
// values it has. False if something is wrong.
bool CopyOne(const ValueSlotHead& first, const RecordSlot& slot, uint64_t head,
             size_t counters, rocattach_counter_value* to) {
  const ValueSlotHead last(slot);
  const uint64_t differ =
      (last.shape ^ head) << 16 | (last.operation ^ first.operation) |
      (last.generation ^ first.generation) | (last.rest ^ first.rest);
  if (differ != 0 || last.shape >> 48 != 1) return false;
  memcpy(static_cast<void*>(to), slot.bytes + sizeof(last), sizeof(*to));
  EndOfCopy();
  return AreValid(to, 1, counters);
}

}  // namespace

namespace sse2 {

size_t CopyValues(const ValueSlotHead& first, absl::Span<const RecordSlot> slots,
                  size_t counters, rocattach_counter_value* to) {
  static_assert(ROCATTACH_VALUES_PER_SLOT == 2);
  if (counters == 0) return 0;
  uint64_t head = HeadOfFullSlots(first);
  FullSlotCopier full(first, counters);
  const size_t pairs = slots.size() - (IsFull(slots.back()) ? 0 : 1);
  const RecordSlot* slot = slots.data();
  for (size_t i = 0; i < pairs; ++i, head += kNextSlot) {
    full.Copy(*slot++, head, to + 2 * i);
  }
  if (!full.ok()) return 0;
  if (pairs == slots.size()) return 2 * pairs;
  return CopyOne(first, slots.back(), head, counters, to + 2 * pairs) ? 2 * pairs + 1
                                                                      : 0;
}

}  // namespace sse2

namespace avx2 {

ROCATTACH_AVX2 size_t CopyValues(const ValueSlotHead& first,
                                 absl::Span<const RecordSlot> slots, size_t counters,
                                 rocattach_counter_value* to) {
  if (counters == 0) return 0;
  uint64_t head = HeadOfFullSlots(first);
  WideSlotCopier full(first, head, counters);
  const size_t pairs = slots.size() - (IsFull(slots.back()) ? 0 : 1);
  const RecordSlot* slot = slots.data();
  for (size_t i = 0; i < pairs; ++i) full.CopyNext(*slot++, to + 2 * i);
  head += pairs * kNextSlot;
  if (!full.ok()) return 0;
  if (pairs == slots.size()) return 2 * pairs;
  return CopyOne(first, slots.back(), head, counters, to + 2 * pairs) ? 2 * pairs + 1
                                                                      : 0;
}

}  // namespace avx2

size_t CopyValues(const ValueSlotHead& first, absl::Span<const RecordSlot> slots,
                  size_t counters, rocattach_counter_value* to) {
  return kHasAvx2 ? avx2::CopyValues(first, slots, counters, to)
                  : sse2::CopyValues(first, slots, counters, to);
}

}  // namespace rocattach
