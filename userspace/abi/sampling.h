/* Selects the dispatches to record while the service is over its budget. Plain C, the
 * same on both sides: the collector selects; the service and readers scale up. */
#ifndef ROCATTACH_USERSPACE_ABI_SAMPLING_H_
#define ROCATTACH_USERSPACE_ABI_SAMPLING_H_

#include <stdint.h>

/* Special values of rocattach_control.sampling: 0 and 1 record every dispatch, any
 * other N records one in N. */
#define ROCATTACH_SAMPLING_EVERY 1u
#define ROCATTACH_SAMPLING_NONE UINT32_MAX /* dispatches are only counted */

/* 1 if dispatch number `index` is recorded. Every dispatch has the same chance,
 * whatever the pattern in which a program repeats its kernels: counting up to N would
 * always find the same kernel of a loop with N of them. `stream` distinguishes several
 * counts that begin at the same number, which makes their choices independent. */
static inline int rocattach_is_sampled(uint32_t sampling, uint64_t index,
                                       uint32_t stream) {
  uint64_t hash;
  if (sampling <= ROCATTACH_SAMPLING_EVERY) return 1;
  if (sampling == ROCATTACH_SAMPLING_NONE) return 0;
  /* The finalizer of SplitMix64: every bit depends on every bit of the input. */
  hash = (index ^ (uint64_t)stream << 32) + 0x9e3779b97f4a7c15ull;
  hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9ull;
  hash = (hash ^ hash >> 27) * 0x94d049bb133111ebull;
  hash ^= hash >> 31;
  return (hash >> 32) * sampling >> 32 == 0;
}

#endif /* ROCATTACH_USERSPACE_ABI_SAMPLING_H_ */
