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
  // Adjacent positions of one counter.
  struct Run {
    uint16_t begin, end;
    uint8_t place;  // the counter's index in the config
  };

  // Further records are always asked for.
  static constexpr size_t kMost = 2048;
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

  // How many runs begin with the first position. They are as they will be, and those
  // that do not fit into the table are missing.
  uint32_t runs() const { return LoadAcquire(&count_) == 0 ? 0 : run_count_; }
  const Run& run(uint32_t index) const { return runs_[index]; }
  // Of all positions of a run.
  const uint64_t* instances() const { return instances_; }

  // For another config. Nobody may read it meanwhile.
  void Forget() {
    StoreRelaxed(&count_, 0u);
    StoreRelaxed(&begun_, 0u);
  }

 private:
  uint32_t begun_;
  uint32_t count_;  // of published positions
  // More than counters: the SDK lists those of one counter together.
  static constexpr uint32_t kMostRuns = 128;

  uint32_t run_count_;
  Run runs_[kMostRuns];
  uint64_t instances_[kMost];
  uint8_t places_[kMost];
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_INSTANCE_ORDER_H_
