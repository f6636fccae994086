// Differences of times from different sources.
#ifndef ROCATTACH_USERSPACE_BASE_ELAPSED_H_
#define ROCATTACH_USERSPACE_BASE_ELAPSED_H_

#include <cstdint>

namespace rocattach {

// From `begin_ns` to `end_ns`; 0 where one of them is missing (0), or the end is the
// earlier one: what processes and recordings say may be wrong.
inline uint64_t ElapsedNs(uint64_t begin_ns, uint64_t end_ns) {
  return begin_ns == 0 || end_ns < begin_ns ? 0 : end_ns - begin_ns;
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_ELAPSED_H_
