// Numbers of recorded GPU operations.
#ifndef ROCATTACH_USERSPACE_RECORD_DRAIN_OPERATION_COUNTS_H_
#define ROCATTACH_USERSPACE_RECORD_DRAIN_OPERATION_COUNTS_H_

#include <cstdint>

namespace rocattach {

struct OperationCounts {
  uint64_t dispatches = 0, copies = 0;

  OperationCounts& operator+=(const OperationCounts& other) {
    dispatches += other.dispatches;
    copies += other.copies;
    return *this;
  }
  OperationCounts& operator-=(const OperationCounts& other) {
    dispatches -= other.dispatches;
    copies -= other.copies;
    return *this;
  }
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRAIN_OPERATION_COUNTS_H_
