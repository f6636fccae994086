// The position of a counter's instance in the hardware.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_DIMENSIONS_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_DIMENSIONS_H_

#include <stdint.h>

#include "userspace/collector/sdk/functions.h"

namespace rocattach::collector {

// The hardware's dimensions, as the SDK numbers them for all counters.
class SdkDimensions {
 public:
  // Stores the ids of the dimensions that a counter has.
  void Learn(const rocattach_sdk_functions& sdk, rocattach_sdk_counter_id counter);
  // The instance's position, without its counter's number: see ROCATTACH_INSTANCE_BITS.
  uint64_t Position(const rocattach_sdk_functions& sdk,
                    rocattach_sdk_instance_id instance) const;

 private:
  static constexpr uint32_t kDimensions = 6;
  // 0: no counter is known to have it. Learned before the plan is active.
  rocattach_sdk_dimension_id ids_[kDimensions] = {};
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_DIMENSIONS_H_
