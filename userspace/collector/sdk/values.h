// Converts the SDK's records, one for each instance of a counter, to ours.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_VALUES_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_VALUES_H_

#include <stdint.h>

#include "userspace/collector/common/plan_set.h"
#include "userspace/collector/sdk/configs.h"

namespace rocattach::collector {

// Adds up the instances of each counter of a config.
class CounterReducer {
 public:
  // `order` is the config's, or nullptr: the SDK is queried for every record's counter.
  CounterReducer(const rocattach_sdk_functions* sdk, const SdkConfig& config,
                 InstanceOrder* order)
      : sdk_(sdk), config_(config), order_(order) {
    for (uint32_t i = 0; i < config.count; ++i) values_[i].instances = 0;
  }

  // Returns the counter's index in the config; kNone if the config does not have it.
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t Find(rocattach_sdk_instance_id instance);
  // The same for record `position` of all records of a dispatch.
  uint32_t FindAt(size_t position, rocattach_sdk_instance_id instance) {
    const uint32_t known =
        order_ == nullptr ? InstanceOrder::kUnknown : order_->At(position, instance);
    return Likely(known < config_.count) ? known : Find(instance);
  }
  // Adds all records of a dispatch. False if a record is of no counter of the config.
  bool AddAll(const rocattach_sdk_counter_record* records, size_t count);
  void Add(uint32_t place, double value);
  // Adds the records of a known run. False if one of them differs from what is
  // known; then nothing is added.
  bool AddRun(const InstanceOrder::Run& run,
              const rocattach_sdk_counter_record* records);

  // The same for two runs of the same length, of different counters.
  bool AddRuns(const InstanceOrder::Run& run, const InstanceOrder::Run& next,
               const rocattach_sdk_counter_record* records);

  const rocattach_counter_value& at(uint32_t place) const { return values_[place]; }

 private:
  const rocattach_sdk_functions* sdk_;
  const SdkConfig& config_;
  InstanceOrder* const order_;
  uint32_t last_ = 0;
  rocattach_counter_value values_[PlanSet::kMaxPassCounters];
};

// Fills slots with the values of single instances, in the order of the SDK's records.
class InstancePacker {
 public:
  InstancePacker(const rocattach_sdk_functions* sdk, const SdkDimensions& dimensions,
                 const SdkConfig& config, InstanceOrder* order,
                 const rocattach_plan& plan, const rocattach_plan_pass& pass)
      : sdk_(sdk),
        dimensions_(dimensions),
        reducer_(sdk, config, order),
        plan_(plan),
        pass_(pass) {}

  // Maximum number of slots that `count` records take.
  static uint32_t SlotsFor(size_t count) {
    return static_cast<uint32_t>((count + ROCATTACH_INSTANCES_PER_SLOT - 1) /
                                 ROCATTACH_INSTANCES_PER_SLOT);
  }
  // The same, but 0 if that is more than may be used: then only sums are recorded.
  static uint32_t SlotsIn(size_t count, uint32_t ring_slots) {
    const uint32_t quarter = ring_slots / 4;
    const uint32_t room =
        quarter < ROCATTACH_MAX_INSTANCE_SLOTS ? quarter : ROCATTACH_MAX_INSTANCE_SLOTS;
    return SlotsFor(count) <= room ? SlotsFor(count) : 0;
  }
  // Fills in slot `number` of these records, each of which is of the config.
  void Fill(const rocattach_sdk_counter_record* records, size_t count, uint32_t number,
            uint64_t correlation_id, rocattach_instances* slot);

 private:
  const rocattach_sdk_functions* sdk_;
  const SdkDimensions& dimensions_;
  CounterReducer reducer_;
  const rocattach_plan& plan_;
  const rocattach_plan_pass& pass_;
};

// Packs the values of `reducer` into slots after a dispatch or a sample, counters by
// their index in `plan`. Returns the number of slots; `total` is the number of values.
uint32_t PackValues(const CounterReducer& reducer, const SdkConfig& config,
                    const rocattach_plan& plan, const rocattach_plan_pass& pass,
                    const rocattach_values& head, rocattach_values* slots,
                    uint32_t* total);

constexpr uint32_t kMaxValueSlots =
    (PlanSet::kMaxPassCounters + ROCATTACH_VALUES_PER_SLOT - 1) /
    ROCATTACH_VALUES_PER_SLOT;

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_VALUES_H_
