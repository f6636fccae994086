#include "userspace/stream/whole_values.h"

#include "userspace/base/cpu_features.h"

namespace rocattach {
bool TakeWholeValues(absl::Span<const rocattach_counter_value> values,
                     const uint64_t* tags, const double* per_instance,
                     ValueColumns out) {
  return kHasAvx2 ? avx2::TakeWholeValues(values, tags, per_instance, out)
                  : sse2::TakeWholeValues(values, tags, per_instance, out);
}

bool AreEqual(const uint64_t* numbers, const uint64_t* last, size_t count) {
  return kHasAvx2 ? avx2::AreEqual(numbers, last, count)
                  : sse2::AreEqual(numbers, last, count);
}

uint64_t TakeDifferences(uint64_t* numbers, uint64_t* last, size_t count) {
  return kHasAvx2 ? avx2::TakeDifferences(numbers, last, count)
                  : sse2::TakeDifferences(numbers, last, count);
}

}  // namespace rocattach
