#include "userspace/report/session_counters.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

// Limits on a plan; more is not evaluated. The collector's own tables are smaller
// (userspace/abi/plan.h).
constexpr int kMaxPasses = 1024;
constexpr int kMaxMetrics = 1024;
constexpr int kMaxAgents = 4096;
constexpr size_t kSampleBytes = 192;

// Counters and metrics of one architecture, as the plan describes them.
CounterDefinitions Definitions(const v1::SessionPlan& plan,
                               const v1::SessionArchitecture& architecture,
                               std::string* problem) {
  CounterDefinitions definitions;
  definitions.architectures = {architecture.name()};
  // Blocks matter for planning only.
  definitions.blocks = {{"all", "", 0}};
  for (const std::string& name : plan.counters()) {
    HardwareCounter counter;
    counter.name = name;
    counter.block = "all";
    definitions.counters.push_back(std::move(counter));
  }
  for (const v1::MetricDefinition& metric : architecture.metrics()) {
    if (definitions.metrics.size() == kMaxMetrics) break;
    auto expression = Expression::Parse(metric.expression());
    if (!expression.ok()) {
      *problem =
          absl::StrCat("metric ", metric.name(), ": ", expression.status().message());
      continue;
    }
    definitions.metrics.push_back({metric.name(),
                                   metric.unit(),
                                   "",
                                   metric.expression(),
                                   *std::move(expression),
                                   {}});
  }
  return definitions;
}

PassAssignment PassesOf(
    const google::protobuf::RepeatedPtrField<v1::CounterPass>& passes,
    const google::protobuf::RepeatedPtrField<v1::RequestedValue>& values,
    const ArchitectureCounters* known, const std::string& architecture) {
  PassAssignment plan;
  plan.architecture = architecture;
  plan.passes.resize(static_cast<size_t>(std::min(passes.size(), kMaxPasses)));
  for (const v1::RequestedValue& value : values) {
    const bool exists = known != nullptr &&
                        (value.metric() ? known->FindMetric(value.name()) != nullptr
                                        : known->FindCounter(value.name()) != nullptr);
    if (!exists) continue;
    PlannedValue planned = {value.name(), value.metric(), {}};
    for (uint32_t pass : value.passes()) {
      if (pass < plan.passes.size()) planned.passes.push_back(pass);
    }
    plan.values.push_back(std::move(planned));
  }
  return plan;
}

}  // namespace

SessionCounters::SessionCounters(const v1::SessionPlan& plan) {
  plan_.counter_names.assign(plan.counters().begin(), plan.counters().end());
  for (const v1::SessionArchitecture& architecture : plan.architectures()) {
    if (architectures_.size() == ROCATTACH_PLAN_MAX_ARCHITECTURES) break;
    CounterDefinitions definitions = Definitions(plan, architecture, &problem_);
    absl::Status added = catalog_.Add(definitions, "the recording");
    if (!added.ok()) {
      problem_ = std::string(added.message());
      definitions.metrics.clear();
      catalog_.Add(definitions, "the recording").IgnoreError();
    }
    architectures_[architecture.name()];
  }
  // Pointers into the catalog are valid from here on.
  for (const v1::SessionArchitecture& architecture : plan.architectures()) {
    if (architectures_.contains(architecture.name())) AddArchitecture(architecture);
  }
  for (const v1::SessionAgent& agent : plan.agents()) {
    if (by_agent_.size() == kMaxAgents) break;
    AddAgent(agent);
  }
}

void SessionCounters::AddArchitecture(const v1::SessionArchitecture& architecture) {
  PlanArchitecture& passes = architectures_[architecture.name()];
  passes.counters = catalog_.Find(architecture.name());
  passes.dispatch = PassesOf(architecture.passes(), architecture.values(),
                             passes.counters, architecture.name());
  passes.sampler =
      PassesOf(architecture.sampler_passes(), architecture.sampler_values(),
               passes.counters, architecture.name());
}

void SessionCounters::AddAgent(const v1::SessionAgent& agent) {
  auto passes = architectures_.find(agent.architecture());
  if (passes == architectures_.end() || passes->second.counters == nullptr) return;
  TargetGpu gpu;
  gpu.agent_id = agent.agent_id();
  gpu.architecture = agent.architecture();
  auto constant = [&](const char* name) -> uint32_t {
    for (const v1::AgentConstant& known : agent.constants()) {
      if (known.name() != name) continue;
      const double value = known.value();
      return value >= 0 && value <= 1e9 ? static_cast<uint32_t>(value) : 0;
    }
    return 0;
  };
  gpu.compute_units = constant("CU_NUM");
  gpu.shader_engines = constant("SE_NUM");
  gpu.wavefront_size = constant("MAX_WAVE_SIZE");
  gpu.xccs = constant("XCC_NUM");
  if (gpu.compute_units != 0) {
    gpu.simds_per_cu = constant("SIMD_NUM") / gpu.compute_units;
  }
  auto same = [&](const std::unique_ptr<Kind>& kind) {
    return kind->architecture == gpu.architecture &&
           kind->gpu.compute_units == gpu.compute_units &&
           kind->gpu.shader_engines == gpu.shader_engines &&
           kind->gpu.wavefront_size == gpu.wavefront_size &&
           kind->gpu.simds_per_cu == gpu.simds_per_cu && kind->gpu.xccs == gpu.xccs;
  };
  auto found = std::find_if(kinds_.begin(), kinds_.end(), same);
  if (found == kinds_.end()) {
    auto kind = std::make_unique<Kind>();
    kind->architecture = gpu.architecture;
    kind->gpu = gpu;
    kind->passes = std::make_unique<PlanArchitecture>(passes->second);
    kind->totals = std::make_unique<CounterTotals>(plan_, *kind->passes, kind->gpu);
    kinds_.push_back(std::move(kind));
    found = kinds_.end() - 1;
  }
  if (by_agent_.emplace(gpu.agent_id, found->get()).second) {
    (*found)->agents.push_back(gpu.agent_id);
  }
}

SessionCounters::Kind* SessionCounters::Find(uint32_t agent_id) {
  auto found = by_agent_.find(agent_id);
  return found == by_agent_.end() ? nullptr : found->second;
}

size_t SessionCounters::AddDispatch(absl::Span<const CounterRecord> values) {
  if (values.empty()) return 0;
  const CounterRecord& first = values.front();
  Kind* kind = Find(first.agent_id);
  if (kind == nullptr || first.pass >= kind->passes->dispatch.passes.size()) {
    unknown_values_ += values.size();
    return 0;
  }
  readings_.clear();
  for (const CounterRecord& value : values) {
    if (value.counter >= plan_.counter_names.size() || value.instances == 0) {
      ++unknown_values_;
      continue;
    }
    readings_.push_back(
        {value.counter, 0, value.instances, value.sum, value.minimum, value.maximum});
  }
  return kind->totals->Add(first.kernel_id, first.pass, readings_);
}

size_t SessionCounters::AddSample(absl::Span<const CounterRecord> values) {
  size_t bytes = 0;
  for (const CounterRecord& value : values) {
    if (value.counter >= plan_.counter_names.size() ||
        Find(value.agent_id) == nullptr || value.end_ns < value.begin_ns) {
      ++unknown_values_;
      continue;
    }
    auto [entry, is_new] = samples_.try_emplace({value.agent_id, value.counter});
    SampledCounter& sampled = entry->second;
    if (is_new) {
      bytes += kSampleBytes;
      sampled.agent_id = value.agent_id;
      sampled.name = plan_.counter_names[value.counter];
      sampled.smallest = sampled.largest = value.sum;
    }
    ++sampled.samples;
    sampled.covered_ns += value.end_ns - value.begin_ns;
    sampled.total += value.sum;
    sampled.smallest = std::min(sampled.smallest, value.sum);
    sampled.largest = std::max(sampled.largest, value.sum);
  }
  return bytes;
}

std::vector<KernelCounters> SessionCounters::Kernels(
    const std::function<std::string(uint32_t)>& name) {
  std::vector<KernelCounters> list;
  for (const std::unique_ptr<Kind>& kind : kinds_) {
    // Kernels without a name stay apart: they may be different ones.
    std::map<std::string, uint32_t> by_name;
    for (uint32_t id : kind->totals->Kernels()) {
      const std::string text = name(id);
      auto [entry, is_new] =
          by_name.emplace(text.empty() ? absl::StrCat("\xff#", id) : text, id);
      if (!is_new) kind->totals->Join(entry->second, id);
    }
    for (const auto& [text, id] : by_name) {
      KernelCounters kernel;
      kernel.kernel = name(id);
      kernel.kernel_id = id;
      kernel.architecture = kind->architecture;
      kernel.agents = kind->agents;
      kernel.passes = kind->totals->Passes(id);
      kernel.complete = kind->totals->Complete(id);
      kernel.values = kind->totals->Values(id);
      list.push_back(std::move(kernel));
    }
  }
  return list;
}

std::vector<SampledCounter> SessionCounters::Samples() const {
  std::vector<SampledCounter> list;
  for (const auto& [key, sampled] : samples_) list.push_back(sampled);
  return list;
}

}  // namespace rocattach
