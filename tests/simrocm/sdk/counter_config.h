// Sets of counters that are counted together, and the records made from them.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_COUNTER_CONFIG_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_COUNTER_CONFIG_H_

#include <functional>
#include <memory>
#include <vector>

#include "tests/simrocm/sdk/catalog.h"

namespace simrocm::sdk {

struct CounterConfig {
  uint64_t id = 0;
  rocattach_sdk_agent_id agent{0};
  // Sorted by id, as in upstream's set: the order of the request is lost.
  std::vector<std::shared_ptr<const Counter>> counters;
  unsigned accumulators = 0;  // each takes one of SQ's counters
  // The hardware counters that are needed for `counters`.
  std::vector<std::shared_ptr<const Counter>> hardware;
};

// nullptr if there is none.
std::shared_ptr<const CounterConfig> FindConfig(rocattach_sdk_counter_config_id id);

// The values of a hardware counter, one element per instance.
using HardwareValues = std::function<std::vector<double>(const Counter& counter)>;

// The records of all counters of a config: one for each instance, or one for a derived
// counter that is a single value.
std::vector<rocattach_sdk_counter_record> MakeRecords(
    const CounterConfig& config, const HardwareValues& values, uint64_t dispatch_id,
    rocattach_sdk_user_data user_data);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_COUNTER_CONFIG_H_
