// The direction of a copy as human-readable text.
#ifndef ROCATTACH_USERSPACE_EXPORT_COMMON_COPY_DIRECTION_H_
#define ROCATTACH_USERSPACE_EXPORT_COMMON_COPY_DIRECTION_H_

#include <cstdint>

#include "userspace/abi/records.h"

namespace rocattach {

inline const char* CopyDirectionText(uint32_t direction) {
  switch (direction) {
    case ROCATTACH_COPY_HOST_TO_HOST:
      return "host to host";
    case ROCATTACH_COPY_HOST_TO_DEVICE:
      return "host to device";
    case ROCATTACH_COPY_DEVICE_TO_HOST:
      return "device to host";
    case ROCATTACH_COPY_DEVICE_TO_DEVICE:
      return "device to device";
    default:
      return "direction not known";
  }
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_COMMON_COPY_DIRECTION_H_
