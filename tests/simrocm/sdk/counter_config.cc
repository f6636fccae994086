#include "tests/simrocm/sdk/counter_config.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/counter_truth.h"
#include "tests/simrocm/environment.h"
#include "tests/simrocm/sdk/agents.h"
#include "tests/simrocm/sdk/expression.h"
#include "tests/simrocm/sdk/state.h"

namespace simrocm::sdk {
namespace {

struct Configs {
  std::mutex mutex;
  std::map<uint64_t, std::shared_ptr<const CounterConfig>> by_id;
  uint64_t next = 1;
};

Configs& Get() {
  static auto* configs = new Configs;
  return *configs;
}

// Adds the hardware counters that are needed for `counter`.
void AddHardware(const AgentCounters& available,
                 const std::shared_ptr<const Counter>& counter,
                 std::set<uint64_t>* seen, CounterConfig* config) {
  auto add = [&](const std::shared_ptr<const Counter>& hardware) {
    if (hardware->constant || !seen->insert(hardware->id).second) return;
    config->hardware.push_back(hardware);
  };
  if (!counter->derived) {
    add(counter);
    return;
  }
  auto names = NamesIn(counter->expression, [&](const std::string& name) {
    return available.by_name.count(name) != 0;
  });
  if (!names) return;
  if (counter->expression.find("accumulate(") != std::string::npos) {
    ++config->accumulators;
  }
  for (const std::string& name : *names) add(available.by_name.at(name));
}

// The value of SQ_ACCUM_PREV in hardware: that of the counter that is programmed before
// it, accumulated.
std::vector<double> Accumulated(const CounterConfig& config, const Counter& counter,
                                const HardwareValues& values) {
  const Counter* before = nullptr;
  for (const auto& candidate : config.hardware) {
    if (candidate->id == counter.id) break;
    if (candidate->block == counter.block) before = candidate.get();
  }
  std::vector<double> result(counter.instances);
  if (before == nullptr) return result;
  result = values(*before);
  for (double& value : result) {
    value *= counter.name == "SQ_ACCUM_PREV" ? kAccumulatedLowRes : kAccumulatedHighRes;
  }
  return result;
}

// The name of the counter that this one accumulates, if it does only that; else "".
std::string AddsUp(const Counter& counter) {
  constexpr std::string_view kCall = "accumulate(";
  if (!counter.derived || !counter.expression.starts_with(kCall)) return "";
  const size_t end = counter.expression.find(',');
  if (end == std::string::npos) return "";
  std::string name = counter.expression.substr(kCall.size(), end - kCall.size());
  std::erase(name, ' ');
  return name;
}

// SDK 1.0.0 also cannot create counters, so the same variable distinguishes it.
bool IsOneDotZero() {
  static const bool is = !GetBool("SIMROCM_CREATE_COUNTER", false);
  return is;
}

// SDK 1.0.0 keeps the results of a counter and of its accumulation under the same
// number: if both are in a config, each gets the sum of both.
void MixUp(const CounterConfig& config, std::vector<std::vector<double>>* results) {
  for (size_t i = 0; i < config.counters.size(); ++i) {
    const std::string name = AddsUp(*config.counters[i]);
    for (size_t j = 0; j < config.counters.size() && !name.empty(); ++j) {
      if (config.counters[j]->name != name) continue;
      std::vector<double>&added = (*results)[i], &plain = (*results)[j];
      for (size_t k = 0; k < added.size() && k < plain.size(); ++k) {
        added[k] = plain[k] = added[k] + plain[k];
      }
    }
  }
}

bool FitsOnePass(const CounterConfig& config) {
  std::map<std::string, unsigned> used;
  used["SQ"] = config.accumulators;
  for (const auto& counter : config.hardware) {
    if (++used[counter->block] > BlockLimit(counter->block)) return false;
  }
  return true;
}

rocattach_sdk_status Create(rocattach_sdk_agent_id agent_id,
                            const rocattach_sdk_counter_id* counters, size_t count,
                            rocattach_sdk_counter_config_id* id) {
  const rocattach_sdk_agent* agent = FindAgent(agent_id);
  if (agent == nullptr) return ROCATTACH_SDK_STATUS_ERROR_AGENT_NOT_FOUND;
  auto config = std::make_shared<CounterConfig>();
  config->agent = agent_id;
  std::set<uint64_t> asked;
  for (size_t i = 0; i < count; ++i) {
    if (FindCounter(counters[i].handle) == nullptr) {
      return ROCATTACH_SDK_STATUS_ERROR_COUNTER_NOT_FOUND;
    }
    if (!asked.insert(counters[i].handle).second) continue;
    auto counter = FindCounter(counters[i].handle, *agent);
    if (counter == nullptr)
      return ROCATTACH_SDK_STATUS_ERROR_METRIC_NOT_VALID_FOR_AGENT;
    config->counters.push_back(std::move(counter));
  }
  if (id->handle != 0) {
    if (auto base = FindConfig(*id)) {
      for (const auto& counter : base->counters) {
        if (asked.insert(counter->id).second) config->counters.push_back(counter);
      }
    }
  }
  std::sort(config->counters.begin(), config->counters.end(),
            [](const auto& a, const auto& b) { return a->id < b->id; });
  const AgentCounters* available = CountersOf(*agent);
  if (available == nullptr) return ROCATTACH_SDK_STATUS_ERROR_AGENT_ARCH_NOT_SUPPORTED;
  std::set<uint64_t> seen;
  for (const auto& counter : config->counters) {
    AddHardware(*available, counter, &seen, config.get());
  }
  if (!FitsOnePass(*config)) return ROCATTACH_SDK_STATUS_ERROR_EXCEEDS_HW_LIMIT;
  std::lock_guard lock(Get().mutex);
  config->id = Get().next++;
  id->handle = config->id;
  Get().by_id[config->id] = std::move(config);
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

}  // namespace

std::shared_ptr<const CounterConfig> FindConfig(rocattach_sdk_counter_config_id id) {
  std::lock_guard lock(Get().mutex);
  auto found = Get().by_id.find(id.handle);
  return found != Get().by_id.end() ? found->second : nullptr;
}

std::vector<rocattach_sdk_counter_record> MakeRecords(
    const CounterConfig& config, const HardwareValues& values, uint64_t dispatch_id,
    rocattach_sdk_user_data user_data) {
  std::vector<rocattach_sdk_counter_record> records;
  const rocattach_sdk_agent* agent = FindAgent(config.agent);
  const AgentCounters* available = CountersOf(*agent);
  auto value_of = [&](const Counter& counter) -> std::vector<double> {
    if (counter.constant) return {counter.constant_value};
    if (counter.name.starts_with("SQ_ACCUM_PREV")) {
      return Accumulated(config, counter, values);
    }
    return values(counter);
  };
  std::vector<std::vector<double>> results;
  for (const auto& counter : config.counters) {
    std::vector<double>& result = results.emplace_back();
    if (counter->derived) {
      auto evaluated =
          Evaluate(counter->expression,
                   [&](const std::string& name) -> std::optional<std::vector<double>> {
                     auto found = available->by_name.find(name);
                     if (found == available->by_name.end()) return std::nullopt;
                     return value_of(*found->second);
                   });
      if (!evaluated) continue;
      result = std::move(*evaluated);
    } else {
      result = value_of(*counter);
    }
  }
  if (IsOneDotZero()) MixUp(config, &results);
  for (size_t at = 0; at < results.size(); ++at) {
    const auto& counter = config.counters[at];
    for (size_t i = 0; i < results[at].size(); ++i) {
      rocattach_sdk_counter_record record{};
      record.id = EncodeInstance(counter->id, counter->dimensions, i);
      record.counter_value = results[at][i];
      record.dispatch_id = dispatch_id;
      record.user_data = user_data;
      record.agent_id = config.agent;
      records.push_back(record);
    }
  }
  return records;
}

}  // namespace simrocm::sdk

SIMROCM_EXPORT rocattach_sdk_status rocprofiler_create_counter_config(
    rocattach_sdk_agent_id agent, rocattach_sdk_counter_id* counters, size_t count,
    rocattach_sdk_counter_config_id* config) {
  rocattach_sdk_status status = simrocm::sdk::Create(agent, counters, count, config);
  simrocm::Log("sdk.create_counter_config agent=%llu counters=%zu status=%d",
               static_cast<unsigned long long>(agent.handle), count, status);
  return status;
}

SIMROCM_EXPORT rocattach_sdk_status
rocprofiler_destroy_counter_config(rocattach_sdk_counter_config_id config) {
  // Dispatches in flight keep their own references.
  std::lock_guard lock(simrocm::sdk::Get().mutex);
  simrocm::sdk::Get().by_id.erase(config.handle);
  return ROCATTACH_SDK_STATUS_SUCCESS;
}
