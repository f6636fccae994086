#include "userspace/session/requested_values.h"

#include <algorithm>

namespace rocattach {
namespace {

std::optional<double> Reduce(const rocattach_counter_value& reading,
                             Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return reading.sum;
    case Reduction::kMinimum:
      return reading.minimum;
    case Reduction::kMaximum:
      return reading.maximum;
    default:
      return reading.instances == 0
                 ? std::nullopt
                 : std::optional<double>(reading.sum / reading.instances);
  }
}

}  // namespace

std::optional<double> AgentConstant(const TargetGpu& gpu, const std::string& name) {
  double value = 0;
  if (name == "MAX_WAVE_SIZE") value = gpu.wavefront_size;
  if (name == "SE_NUM") value = gpu.shader_engines;
  if (name == "CU_NUM") value = gpu.compute_units;
  if (name == "SIMD_NUM") {
    value = static_cast<double>(gpu.simds_per_cu) * gpu.compute_units;
  }
  if (name == "XCC_NUM") value = gpu.xccs;
  return value == 0 ? std::nullopt : std::optional<double>(value);
}

RequestedValues::RequestedValues(const CompiledPlan& plan,
                                 const PlanArchitecture& architecture,
                                 const PassAssignment& passes,
                                 const std::vector<std::string>& names)
    : plan_(plan), counters_(*architecture.counters), passes_(passes.passes.size()) {
  for (const PlannedValue& wanted : passes.values) {
    const auto place = std::find(names.begin(), names.end(), wanted.name);
    if (place == names.end()) continue;
    Value value;
    value.number = static_cast<uint32_t>(place - names.begin());
    if (wanted.metric) {
      value.metric = counters_.FindMetric(wanted.name);
      if (value.metric == nullptr) continue;
    } else {
      const auto counter =
          std::find(plan.counter_names.begin(), plan.counter_names.end(), wanted.name);
      if (counter == plan.counter_names.end()) continue;
      value.counter = static_cast<uint16_t>(counter - plan.counter_names.begin());
    }
    for (size_t pass : wanted.passes) {
      if (pass < passes_.size()) passes_[pass].push_back(value);
    }
  }
}

void RequestedValues::Append(uint32_t pass, const TargetGpu& gpu,
                             absl::Span<const rocattach_counter_value> readings,
                             std::vector<RecordValue>* values) const {
  if (pass >= passes_.size()) return;
  for (const Value& wanted : passes_[pass]) {
    std::optional<double> value;
    if (wanted.metric != nullptr) {
      value = Evaluate(*wanted.metric, gpu, readings);
    } else {
      for (const rocattach_counter_value& reading : readings) {
        if (reading.counter != wanted.counter) continue;
        value = reading.sum;
        break;
      }
    }
    if (value.has_value()) values->push_back({wanted.number, 0, *value});
  }
}

std::optional<double> RequestedValues::Evaluate(
    const DerivedMetric& metric, const TargetGpu& gpu,
    absl::Span<const rocattach_counter_value> readings) const {
  return counters_.Evaluate(
      metric,
      [&](const std::string& name, Reduction reduction) -> std::optional<double> {
        for (const rocattach_counter_value& reading : readings) {
          if (reading.counter < plan_.counter_names.size() &&
              plan_.counter_names[reading.counter] == name) {
            return Reduce(reading, reduction);
          }
        }
        return AgentConstant(gpu, name);
      });
}

}  // namespace rocattach
