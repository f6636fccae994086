// Four values at a time, for processors with AVX2.
#include <immintrin.h>

#include <cstddef>

#include "userspace/base/cpu_features.h"
#include "userspace/stream/whole_values.h"

namespace rocattach {
namespace {

ROCATTACH_AVX2 __m256i Load(const uint64_t* numbers) {
  // In one piece: compilers split other loads, for the sake of processors without AVX2.
  return _mm256_lddqu_si256(reinterpret_cast<const __m256i*>(numbers));
}

ROCATTACH_AVX2 void Store(__m256i numbers, uint64_t* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), numbers);
}

ROCATTACH_AVX2 __m256d Load(const double* numbers) {
  return _mm256_castsi256_pd(
      _mm256_lddqu_si256(reinterpret_cast<const __m256i*>(numbers)));
}

ROCATTACH_AVX2 __m256i Bits(__m256d doubles) {
  return _mm256_castpd_si256(doubles);
}

// As sse2::TakeWholeValues() does it.
class QuadReader {
 public:
  ROCATTACH_AVX2 void Read(const rocattach_counter_value* values, const uint64_t* tags,
                           const double* per_instance, ValueColumns out) {
    const auto* const at = reinterpret_cast<const double*>(values);
    const __m256d v0 = Load(at), v1 = Load(at + 4), v2 = Load(at + 8),
                  v3 = Load(at + 12);
    // Heads and minima, sums and maxima of two values.
    const __m256d even0 = _mm256_unpacklo_pd(v0, v1), odd0 = _mm256_unpackhi_pd(v0, v1);
    const __m256d even2 = _mm256_unpacklo_pd(v2, v3), odd2 = _mm256_unpackhi_pd(v2, v3);
    const __m256i heads = Bits(_mm256_permute2f128_pd(even0, even2, 0x20));
    tag_differs_ = _mm256_or_si256(tag_differs_, _mm256_xor_si256(heads, Load(tags)));
    const __m256d sums = _mm256_permute2f128_pd(odd0, odd2, 0x20);
    const __m256i sum = Number(sums);
    const __m256i minimum = Number(_mm256_permute2f128_pd(even0, even2, 0x31));
    const __m256i maximum = Number(_mm256_permute2f128_pd(odd0, odd2, 0x31));
    const __m256i middle = Truncated(_mm256_mul_pd(sums, Load(per_instance)));
    Store(sum, out.sum);
    Store(_mm256_sub_epi64(middle, minimum), out.below());
    Store(_mm256_sub_epi64(maximum, middle), out.above());
  }

  ROCATTACH_AVX2 bool ok() const {
    const __m256i range = _mm256_set1_epi64x(~((int64_t{1} << 51) - 1));
    const __m256i tag = _mm256_set1_epi64x(static_cast<int64_t>(kValueTagBits));
    const __m256i bad =
        _mm256_or_si256(_mm256_or_si256(_mm256_and_si256(tag_differs_, tag), differs_),
                        _mm256_and_si256(numbers_, range));
    return _mm256_testz_si256(bad, bad) != 0;
  }

 private:
  ROCATTACH_AVX2 __m256i Number(__m256d values) {
    const __m256d rounder = _mm256_set1_pd(kRounder);
    const __m256d rounded = _mm256_add_pd(values, rounder);
    const __m256i back = Bits(_mm256_sub_pd(rounded, rounder));
    differs_ = _mm256_or_si256(differs_, _mm256_xor_si256(back, Bits(values)));
    const __m256i number = _mm256_sub_epi64(Bits(rounded), Bits(rounder));
    numbers_ = _mm256_or_si256(numbers_, number);
    return number;
  }
  ROCATTACH_AVX2 static __m256i Truncated(__m256d values) {
    const __m256d rounder = _mm256_set1_pd(kRounder);
    const __m256d rounded = _mm256_add_pd(values, rounder);
    const __m256i too_large =
        Bits(_mm256_cmp_pd(_mm256_sub_pd(rounded, rounder), values, _CMP_GT_OQ));
    return _mm256_add_epi64(_mm256_sub_epi64(Bits(rounded), Bits(rounder)), too_large);
  }

  __m256i tag_differs_ = {}, differs_ = {}, numbers_ = {};
};

}  // namespace

namespace avx2 {

ROCATTACH_AVX2 bool TakeWholeValues(absl::Span<const rocattach_counter_value> values,
                                    const uint64_t* tags, const double* per_instance,
                                    ValueColumns out) {
  QuadReader reader;
  size_t i = 0;
  for (; i + 3 < values.size(); i += 4) {
    reader.Read(&values[i], tags + i, per_instance + i, out.From(i));
  }
  if (!reader.ok()) return false;
  return i == values.size() || sse2::TakeWholeValues(values.subspan(i), tags + i,
                                                     per_instance + i, out.From(i));
}

ROCATTACH_AVX2 bool AreEqual(const uint64_t* numbers, const uint64_t* last,
                             size_t count) {
  __m256i differ = _mm256_setzero_si256();
  size_t i = 0;
  for (; i + 3 < count; i += 4) {
    differ =
        _mm256_or_si256(differ, _mm256_xor_si256(Load(numbers + i), Load(last + i)));
  }
  if (_mm256_testz_si256(differ, differ) == 0) return false;
  return i == count || sse2::AreEqual(numbers + i, last + i, count - i);
}

ROCATTACH_AVX2 uint64_t TakeDifferences(uint64_t* numbers, uint64_t* last,
                                        size_t count) {
  __m256i any = _mm256_setzero_si256();
  size_t i = 0;
  for (; i + 3 < count; i += 4) {
    const __m256i now = Load(numbers + i);
    const __m256i difference = _mm256_sub_epi64(now, Load(last + i));
    const __m256i signs = _mm256_cmpgt_epi64(_mm256_setzero_si256(), difference);
    const __m256i zigzag = _mm256_xor_si256(_mm256_slli_epi64(difference, 1), signs);
    Store(now, last + i);
    Store(zigzag, numbers + i);
    any = _mm256_or_si256(any, zigzag);
  }
  const __m128i two =
      _mm_or_si128(_mm256_castsi256_si128(any), _mm256_extracti128_si256(any, 1));
  uint64_t ored =
      static_cast<uint64_t>(_mm_cvtsi128_si64(two) | _mm_extract_epi64(two, 1));
  if (i < count) ored |= sse2::TakeDifferences(numbers + i, last + i, count - i);
  return ored;
}

}  // namespace avx2
}  // namespace rocattach
