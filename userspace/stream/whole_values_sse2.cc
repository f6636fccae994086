// Two values at a time: what every x86-64 processor can do.
#include <emmintrin.h>

#include <cstddef>

#include "userspace/stream/packed_column.h"
#include "userspace/stream/whole_values.h"

namespace rocattach {
namespace {

static_assert(sizeof(rocattach_counter_value) == 32);
static_assert(offsetof(rocattach_counter_value, counter) == 0);
static_assert(offsetof(rocattach_counter_value, instances) == 4);
static_assert(offsetof(rocattach_counter_value, sum) == 8);
static_assert(offsetof(rocattach_counter_value, minimum) == 16);
static_assert(offsetof(rocattach_counter_value, maximum) == 24);
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

__m128i Bits(__m128d doubles) {
  return _mm_castpd_si128(doubles);
}

// Checks and converts two values at a time.
class PairReader {
 public:
  void Read(const rocattach_counter_value& first, const rocattach_counter_value& second,
            __m128i tags, __m128d per_instance, ValueColumns out) {
    const auto load = [](const void* from) {
      return _mm_loadu_pd(static_cast<const double*>(from));
    };
    const __m128d head1 = load(&first), head2 = load(&second);
    const __m128d ends1 = load(&first.minimum), ends2 = load(&second.minimum);
    const __m128i heads = Bits(_mm_unpacklo_pd(head1, head2));
    tag_differs_ = _mm_or_si128(tag_differs_, _mm_xor_si128(heads, tags));
    const __m128d sums = _mm_unpackhi_pd(head1, head2);
    const __m128i sum = Number(sums);
    const __m128i minimum = Number(_mm_unpacklo_pd(ends1, ends2));
    const __m128i maximum = Number(_mm_unpackhi_pd(ends1, ends2));
    const __m128i middle = Truncated(_mm_mul_pd(sums, per_instance));
    Store(sum, out.sum);
    Store(_mm_sub_epi64(middle, minimum), out.below());
    Store(_mm_sub_epi64(maximum, middle), out.above());
  }

  bool ok() const {
    // 2^51 and above, or negative.
    const __m128i range = _mm_set1_epi64x(~((int64_t{1} << 51) - 1));
    const __m128i tag = _mm_set1_epi64x(static_cast<int64_t>(kValueTagBits));
    const __m128i bad =
        _mm_or_si128(_mm_or_si128(_mm_and_si128(tag_differs_, tag), differs_),
                     _mm_and_si128(numbers_, range));
    return _mm_movemask_epi8(_mm_cmpeq_epi8(bad, _mm_setzero_si128())) == 0xffff;
  }

 private:
  static void Store(__m128i numbers, uint64_t* to) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), numbers);
  }

  // Fractions, -0 and NaN do not come back bit by bit. What is not below 2^51 has a sum
  // with another exponent, and so a number that is out of range.
  __m128i Number(__m128d values) {
    const __m128d rounder = _mm_set1_pd(kRounder);
    const __m128d rounded = _mm_add_pd(values, rounder);
    const __m128i back = Bits(_mm_sub_pd(rounded, rounder));
    differs_ = _mm_or_si128(differs_, _mm_xor_si128(back, Bits(values)));
    const __m128i number = _mm_sub_epi64(Bits(rounded), Bits(rounder));
    numbers_ = _mm_or_si128(numbers_, number);
    return number;
  }

  // Of numbers from 0 to 2^51.
  static __m128i Truncated(__m128d values) {
    const __m128d rounder = _mm_set1_pd(kRounder);
    const __m128d rounded = _mm_add_pd(values, rounder);
    const __m128i too_large =
        Bits(_mm_cmpgt_pd(_mm_sub_pd(rounded, rounder), values));  // -1, or 0
    return _mm_add_epi64(_mm_sub_epi64(Bits(rounded), Bits(rounder)), too_large);
  }

  __m128i tag_differs_ = _mm_setzero_si128();
  __m128i differs_ = _mm_setzero_si128();
  __m128i numbers_ = _mm_setzero_si128();  // all of them, ORed
};

}  // namespace

namespace sse2 {

bool TakeWholeValues(absl::Span<const rocattach_counter_value> values,
                     const uint64_t* tags, const double* per_instance,
                     ValueColumns out) {
  PairReader reader;
  size_t i = 0;
  for (; i + 1 < values.size(); i += 2) {
    reader.Read(values[i], values[i + 1],
                _mm_loadu_si128(reinterpret_cast<const __m128i*>(tags + i)),
                _mm_loadu_pd(per_instance + i), out.From(i));
  }
  if (i < values.size()) {
    reader.Read(values[i], values[i], _mm_set1_epi64x(static_cast<int64_t>(tags[i])),
                _mm_set1_pd(per_instance[i]), out.From(i));
  }
  return reader.ok();
}

bool AreEqual(const uint64_t* numbers, const uint64_t* last, size_t count) {
  __m128i differ = _mm_setzero_si128();
  size_t i = 0;
  for (; i + 1 < count; i += 2) {
    const auto load = [i](const uint64_t* from) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    };
    differ = _mm_or_si128(differ, _mm_xor_si128(load(numbers), load(last)));
  }
  if (i < count && numbers[i] != last[i]) return false;
  return _mm_movemask_epi8(_mm_cmpeq_epi8(differ, _mm_setzero_si128())) == 0xffff;
}

uint64_t TakeDifferences(uint64_t* numbers, uint64_t* last, size_t count) {
  __m128i any = _mm_setzero_si128();
  size_t i = 0;
  for (; i + 1 < count; i += 2) {
    auto* const at = reinterpret_cast<__m128i*>(numbers + i);
    auto* const before = reinterpret_cast<__m128i*>(last + i);
    const __m128i now = _mm_loadu_si128(at);
    const __m128i difference = _mm_sub_epi64(now, _mm_loadu_si128(before));
    const __m128i signs = _mm_shuffle_epi32(_mm_srai_epi32(difference, 31), 0xf5);
    const __m128i zigzag = _mm_xor_si128(_mm_slli_epi64(difference, 1), signs);
    _mm_storeu_si128(before, now);
    _mm_storeu_si128(at, zigzag);
    any = _mm_or_si128(any, zigzag);
  }
  const __m128i both = _mm_or_si128(any, _mm_unpackhi_epi64(any, any));
  uint64_t ored = static_cast<uint64_t>(_mm_cvtsi128_si64(both));
  if (i < count) {
    const uint64_t zigzag = ZigZag(numbers[i] - last[i]);
    last[i] = numbers[i];
    numbers[i] = zigzag;
    ored |= zigzag;
  }
  return ored;
}

}  // namespace sse2
}  // namespace rocattach
