// Which counter each record of a config is of.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_INSTANCE_ORDER_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_INSTANCE_ORDER_H_

#include <stddef.h>
#include <stdint.h>

#include "userspace/abi/atomics.h"

namespace rocattach::collector {

// The SDK lists the instances of a config's counters in the same order for each
// dispatch, and asking it for the counter of each one costs more than all the rest of
// what is done with a value. So the order is noted once. Nothing depends on it: a
// record whose instance is another one than at that position before is asked for again.
//
// All zeros is an order of which nothing is known. One thread notes it, any number read
// it.
class InstanceOrder {
 public:
  // Further records are always asked for.
  static constexpr size_t kMost = 1024;
  static constexpr uint32_t kUnknown = UINT32_MAX;

  // The counter's index in the config.
  uint32_t At(size_t position, uint64_t instance) const {
    if (position >= LoadAcquire(&count_) || instances_[position] != instance) {
      return kUnknown;
    }
    return places_[position];
  }

  // True for one caller, which notes all positions from 0 on and then publishes them.
  bool Begin() {
    uint32_t none = 0;
    return LoadRelaxed(&begun_) == 0 &&
           __atomic_compare_exchange_n(&begun_, &none, 1u, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
  }
  // `place` is the index of a config's counter, of which there are at most 128.
  void Note(size_t position, uint64_t instance, uint32_t place) {
    if (position >= kMost) return;
    instances_[position] = instance;
    places_[position] = static_cast<uint8_t>(place);
  }
  void Publish(size_t count) {
    StoreRelease(&count_, static_cast<uint32_t>(count < kMost ? count : kMost));
  }

  // For another config. Nobody may read it meanwhile.
  void Forget() {
    StoreRelaxed(&count_, 0u);
    StoreRelaxed(&begun_, 0u);
  }

 private:
  uint32_t begun_;
  uint32_t count_;  // of published positions
  uint64_t instances_[kMost];
  uint8_t places_[kMost];
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_INSTANCE_ORDER_H_
