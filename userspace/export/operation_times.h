// Whether it is known when an operation ran.
#ifndef ROCATTACH_USERSPACE_EXPORT_OPERATION_TIMES_H_
#define ROCATTACH_USERSPACE_EXPORT_OPERATION_TIMES_H_

#include <cstdint>
#include <limits>

#include "userspace/abi/records.h"

namespace rocattach {

// Of a dispatch or a copy. Formats have signed times; larger ones are damaged.
template <typename Operation>
bool HasTimes(const Operation& r) {
  return (r.flags & (ROCATTACH_DISPATCH_UNTIMED | ROCATTACH_DISPATCH_UNFINISHED)) ==
             0 &&
         r.start_ns != 0 && r.end_ns >= r.start_ns &&
         r.end_ns <= std::numeric_limits<int64_t>::max();
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_OPERATION_TIMES_H_
