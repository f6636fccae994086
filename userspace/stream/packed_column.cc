#include "userspace/stream/packed_column.h"

#include <immintrin.h>

#include "userspace/base/cpu_features.h"

namespace rocattach {
namespace {

// For each set of values that take two bytes: which bytes of four 32-bit words are
// written, in this order. What follows them does not count.
struct Selections {
  constexpr Selections() : bytes() {
    for (int more = 0; more < 16; ++more) {
      int at = 0;
      for (int value = 0; value < 4; ++value) {
        bytes[more][at++] = static_cast<uint8_t>(4 * value);
        if ((more >> value & 1) != 0) {
          bytes[more][at++] = static_cast<uint8_t>(4 * value + 1);
        }
      }
    }
  }
  alignas(8) uint8_t bytes[16][8];
};
constexpr Selections kSelections;

}  // namespace

namespace plain {

uint8_t* PutVarints14(const uint64_t* values, size_t count, uint8_t* out) {
  for (size_t i = 0; i < count; ++i) out = PutVarint14(values[i], out);
  return out;
}

}  // namespace plain

namespace avx2 {

ROCATTACH_AVX2 uint8_t* PutVarints14(const uint64_t* values, size_t count,
                                     uint8_t* out) {
  const __m256i lower_halves = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
  const __m128i septet = _mm_set1_epi32(0x7f);
  size_t i = 0;
  for (; i + 3 < count; i += 4) {
    const __m256i words =
        _mm256_lddqu_si256(reinterpret_cast<const __m256i*>(values + i));
    const __m128i four =
        _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(words, lower_halves));
    const __m128i more = _mm_cmpgt_epi32(four, septet);
    const __m128i bytes = _mm_or_si128(
        _mm_or_si128(_mm_and_si128(four, septet),
                     _mm_and_si128(_mm_slli_epi32(four, 1), _mm_set1_epi32(0x7f00))),
        _mm_and_si128(more, _mm_set1_epi32(0x80)));
    const auto set = static_cast<unsigned>(_mm_movemask_ps(_mm_castsi128_ps(more)));
    const __m128i selection =
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kSelections.bytes[set]));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out),
                     _mm_shuffle_epi8(bytes, selection));
    out += 4 + __builtin_popcount(set);
  }
  return plain::PutVarints14(values + i, count - i, out);
}

}  // namespace avx2

uint8_t* PutVarints14(const uint64_t* values, size_t count, uint8_t* out) {
  return kHasAvx2 ? avx2::PutVarints14(values, count, out)
                  : plain::PutVarints14(values, count, out);
}

}  // namespace rocattach
