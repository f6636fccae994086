// Maps each record of a config to its counter.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_INSTANCE_ORDER_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_INSTANCE_ORDER_H_

#include <stddef.h>
#include <stdint.h>

#include "userspace/abi/atomics.h"

namespace rocattach::collector {

// The SDK lists the instances of a config's counters in the same order for each
// dispatch, and querying the counter of each one costs more than everything else done
// with a value. So the order is stored once. The result does not depend on it: if a
// record has another instance than stored at its position, the SDK is queried again.
//
// All zeros means that nothing is known of the order. One thread stores it, any
// number of threads read it.
class InstanceOrder {
 public:
  // Adjacent positions of one counter.
  struct Run {
    uint16_t begin, end;
    uint8_t place;  // the counter's index in the config
  };

  // For records beyond this number the SDK is always queried.
  static constexpr size_t kMost = 2048;
  static constexpr uint32_t kUnknown = UINT32_MAX;

  // The counter's index in the config.
  uint32_t At(size_t position, uint64_t instance) const {
    if (position >= LoadAcquire(&count_) || instances_[position] != instance) {
      return kUnknown;
    }
    return places_[position];
  }

  // True for one caller, which stores all positions from 0 on and then publishes them.
  bool Begin() {
    uint32_t none = 0;
    return LoadRelaxed(&begun_) == 0 &&
           __atomic_compare_exchange_n(&begun_, &none, 1u, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
  }
  // `place` is the index of the counter in the config, which has at most 128 of them.
  void Store(size_t position, uint64_t instance, uint32_t place) {
    if (position >= kMost) return;
    instances_[position] = instance;
    places_[position] = static_cast<uint8_t>(place);
  }
  void Publish(size_t count) {
    if (count > kMost) count = kMost;
    uint32_t runs = 0;
    for (size_t i = 0; i < count; ++i) {
      if (runs == 0 || runs_[runs - 1].place != places_[i]) {
        if (runs == kMostRuns) break;
        runs_[runs++] = {static_cast<uint16_t>(i), 0, places_[i]};
      }
      runs_[runs - 1].end = static_cast<uint16_t>(i + 1);
    }
    run_count_ = runs;
    StoreRelease(&count_, static_cast<uint32_t>(count));
  }

  // Number of runs, counted from the first position. They no longer change; those that
  // do not fit into the table are missing.
  uint32_t runs() const { return LoadAcquire(&count_) == 0 ? 0 : run_count_; }
  const Run& run(uint32_t index) const { return runs_[index]; }
  // The instances at all stored positions, those of all runs included.
  const uint64_t* instances() const { return instances_; }

  // Resets it for another config. No thread may read it meanwhile.
  void Forget() {
    StoreRelaxed(&count_, 0u);
    StoreRelaxed(&begun_, 0u);
  }

 private:
  uint32_t begun_;
  uint32_t count_;  // number of published positions
  // More than there are counters: the SDK lists the instances of one counter together.
  static constexpr uint32_t kMostRuns = 128;

  uint32_t run_count_;
  Run runs_[kMostRuns];
  uint64_t instances_[kMost];
  uint8_t places_[kMost];
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_INSTANCE_ORDER_H_
