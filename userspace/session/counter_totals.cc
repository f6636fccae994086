#include "userspace/session/counter_totals.h"

#include <algorithm>
#include <numeric>

#include "userspace/session/requested_values.h"

namespace rocattach {

CounterTotals::CounterTotals(const CompiledPlan& plan,
                             const PlanArchitecture& architecture, const TargetGpu& gpu)
    : plan_(plan), architecture_(architecture), gpu_(gpu) {}

void CounterTotals::Sum::Add(const Sum& other) {
  sum += other.sum;
  minimum += other.minimum;
  maximum += other.maximum;
  instances = other.instances;
  dispatches += other.dispatches;
}

size_t CounterTotals::Add(uint32_t kernel_id, uint32_t pass,
                          absl::Span<const rocattach_counter_value> readings) {
  const size_t passes = architecture_.dispatch.passes.size();
  if (pass >= passes) return 0;
  auto [entry, is_new] = kernels_.try_emplace(kernel_id);
  Kernel& kernel = entry->second;
  size_t bytes = 0;
  if (is_new) {
    kernel.passes.resize(passes);
    kernel.sums.resize(passes);
    bytes += sizeof(*entry) + passes * (sizeof(decltype(kernel.passes)::value_type) +
                                        sizeof(decltype(kernel.sums)::value_type));
  }
  ++kernel.passes[pass];
  for (const rocattach_counter_value& reading : readings) {
    auto [place, added] = kernel.sums[pass].try_emplace(reading.counter);
    if (added) bytes += sizeof(*place) + 32;
    place->second.Add({reading.sum, reading.minimum, reading.maximum,
                       static_cast<double>(reading.instances), 1});
  }
  return bytes;
}

void CounterTotals::Join(uint32_t into, uint32_t from) {
  auto source = kernels_.find(from);
  if (into == from || source == kernels_.end()) return;
  auto [entry, is_new] = kernels_.try_emplace(into);
  if (is_new) {
    entry->second = std::move(source->second);
    kernels_.erase(source);
    return;
  }
  Kernel& kernel = entry->second;
  for (size_t pass = 0; pass < kernel.passes.size(); ++pass) {
    kernel.passes[pass] += source->second.passes[pass];
    for (const auto& [counter, sum] : source->second.sums[pass]) {
      kernel.sums[pass][counter].Add(sum);
    }
  }
  kernels_.erase(source);
}

std::vector<uint32_t> CounterTotals::Kernels() const {
  std::vector<uint32_t> ids;
  for (const auto& [id, kernel] : kernels_) ids.push_back(id);
  return ids;
}

std::vector<uint64_t> CounterTotals::Passes(uint32_t kernel) const {
  auto found = kernels_.find(kernel);
  return found == kernels_.end()
             ? std::vector<uint64_t>(architecture_.dispatch.passes.size())
             : found->second.passes;
}

bool CounterTotals::Complete(uint32_t kernel) const {
  const std::vector<uint64_t> passes = Passes(kernel);
  return std::count(passes.begin(), passes.end(), 0u) == 0;
}

CounterTotals::Sum CounterTotals::SumOf(const Kernel& kernel,
                                        absl::Span<const size_t> passes,
                                        const std::string& name) const {
  Sum total;
  const auto& names = plan_.counter_names;
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return total;
  const auto index = static_cast<uint16_t>(found - names.begin());
  for (size_t pass : passes) {
    auto entry = kernel.sums[pass].find(index);
    if (entry == kernel.sums[pass].end()) continue;
    total.Add(entry->second);
  }
  return total;
}

std::vector<KernelValue> CounterTotals::Values(uint32_t kernel_id) const {
  std::vector<KernelValue> values;
  auto found = kernels_.find(kernel_id);
  if (found == kernels_.end()) return values;
  const Kernel& kernel = found->second;
  std::vector<size_t> all(architecture_.dispatch.passes.size());
  std::iota(all.begin(), all.end(), size_t{0});
  for (const PlannedValue& wanted : architecture_.dispatch.values) {
    KernelValue value;
    value.name = wanted.name;
    value.metric = wanted.metric;
    value.mixed = wanted.mixed();
    if (!wanted.metric) {
      const Sum sum = SumOf(kernel, wanted.passes, wanted.name);
      value.dispatches = sum.dispatches;
      if (sum.dispatches > 0) {
        value.total = sum.sum;
        value.mean = sum.sum / static_cast<double>(sum.dispatches);
      }
      values.push_back(std::move(value));
      continue;
    }
    const DerivedMetric* metric = architecture_.counters->FindMetric(wanted.name);
    const absl::Span<const size_t> passes =
        value.mixed ? absl::MakeConstSpan(all) : absl::MakeConstSpan(wanted.passes);
    uint64_t fewest = UINT64_MAX;
    value.mean = architecture_.counters->Evaluate(
        *metric,
        [&](const std::string& name, Reduction reduction) -> std::optional<double> {
          if (architecture_.counters->FindCounter(name) == nullptr) {
            return AgentConstant(gpu_, name);
          }
          const Sum sum = SumOf(kernel, passes, name);
          fewest = std::min(fewest, sum.dispatches);
          if (sum.dispatches == 0) return std::nullopt;
          double number = sum.sum;
          if (reduction == Reduction::kMinimum) number = sum.minimum;
          if (reduction == Reduction::kMaximum) number = sum.maximum;
          if (reduction == Reduction::kAverage) number = sum.sum / sum.instances;
          // Means: a quotient of means equals the quotient of the sums if the
          // dispatches are the same, and other expressions remain values per dispatch.
          return number / static_cast<double>(sum.dispatches);
        });
    value.dispatches = fewest == UINT64_MAX ? 0 : fewest;
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace rocattach
