#include "userspace/record/sessions/session_plan.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/session/requested_values.h"

namespace rocattach {
namespace {

// Adds the metric and those that it is computed from, each once.
void AddMetric(const ArchitectureCounters& counters, const std::string& name,
               std::set<std::string>* seen, v1::SessionArchitecture* out) {
  const DerivedMetric* metric = counters.FindMetric(name);
  if (metric == nullptr || !seen->insert(name).second) return;
  v1::MetricDefinition* definition = out->add_metrics();
  definition->set_name(metric->name);
  definition->set_expression(metric->text);
  definition->set_unit(metric->unit);
  for (const std::string& part : metric->expression.names()) {
    AddMetric(counters, part, seen, out);
  }
}

void AddPasses(const CompiledPlan& plan, const PassAssignment& passes,
               google::protobuf::RepeatedPtrField<v1::CounterPass>* out_passes,
               google::protobuf::RepeatedPtrField<v1::RequestedValue>* out_values) {
  for (const CounterPass& pass : passes.passes) {
    v1::CounterPass* out = out_passes->Add();
    for (const std::string& name : pass.counters) {
      const auto& names = plan.counter_names;
      const auto found = std::find(names.begin(), names.end(), name);
      out->add_counters(static_cast<uint32_t>(found - names.begin()));
    }
  }
  for (const PlannedValue& value : passes.values) {
    v1::RequestedValue* out = out_values->Add();
    out->set_name(value.name);
    out->set_metric(value.metric);
    for (size_t pass : value.passes) out->add_passes(static_cast<uint32_t>(pass));
  }
}

std::string Describe(const CompiledPlan& plan) {
  const uint32_t kinds = plan.image->record_kinds;
  std::vector<std::string> words;
  if (kinds & ROCATTACH_PLAN_RECORD_DISPATCHES) words.push_back("dispatches");
  if (kinds & ROCATTACH_PLAN_RECORD_COUNTERS) {
    words.push_back(absl::StrCat(
        plan.counter_names.size(), " counters in ", plan.image->passes, " passes",
        kinds & ROCATTACH_PLAN_RECORD_INSTANCES ? " with all instances" : ""));
  }
  if (kinds & ROCATTACH_PLAN_RECORD_SAMPLES) {
    words.push_back(kinds & ROCATTACH_PLAN_RECORD_INSTANCES
                        ? "samples with all instances"
                        : "samples");
  }
  if (kinds & ROCATTACH_PLAN_RECORD_COPIES) words.push_back("copies");
  if (kinds & ROCATTACH_PLAN_RECORD_API) words.push_back("API calls");
  if (kinds & ROCATTACH_PLAN_RECORD_MEMORY) words.push_back("memory allocations");
  if (kinds & ROCATTACH_PLAN_RECORD_SCRATCH) words.push_back("scratch memory");
  return absl::StrJoin(words, ", ");
}

}  // namespace

v1::SessionPlan SessionPlanToProto(const CompiledPlan& plan) {
  v1::SessionPlan out;
  for (const std::string& name : plan.counter_names) out.add_counters(name);
  for (const PlanArchitecture& architecture : plan.architectures) {
    v1::SessionArchitecture* to = out.add_architectures();
    to->set_name(architecture.counters->name());
    AddPasses(plan, architecture.dispatch, to->mutable_passes(), to->mutable_values());
    AddPasses(plan, architecture.sampler, to->mutable_sampler_passes(),
              to->mutable_sampler_values());
    std::set<std::string> seen;
    for (const auto* values :
         {&architecture.dispatch.values, &architecture.sampler.values}) {
      for (const PlannedValue& value : *values) {
        AddMetric(*architecture.counters, value.name, &seen, to);
      }
    }
  }
  for (const TargetGpu& gpu : plan.target.gpus) {
    const PlanArchitecture* architecture = plan.Architecture(gpu.agent_id);
    if (architecture == nullptr) continue;
    v1::SessionAgent* agent = out.add_agents();
    agent->set_agent_id(gpu.agent_id);
    agent->set_architecture(architecture->counters->name());
    for (const char* name : kAgentConstants) {
      const std::optional<double> value = AgentConstant(gpu, name);
      if (!value.has_value()) continue;
      v1::AgentConstant* constant = agent->add_constants();
      constant->set_name(name);
      constant->set_value(*value);
    }
  }
  out.set_description(Describe(plan));
  return out;
}

}  // namespace rocattach
