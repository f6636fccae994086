#include "tests/fuzz/record/session_checks.h"

#include <array>

#include "tests/fuzz/record/commands.h"
#include "tests/fuzz/stream/wrapped_frames.h"

namespace rocattach {
namespace {

constexpr uint32_t kAgent = 1;

uint32_t RecordKinds(uint8_t number) {
  uint32_t kinds = ROCATTACH_PLAN_RECORD_DISPATCHES | ROCATTACH_PLAN_RECORD_COUNTERS |
                   ROCATTACH_PLAN_RECORD_COPIES | ROCATTACH_PLAN_RECORD_MEMORY;
  if (number & kFuzzPlanInstances) kinds |= ROCATTACH_PLAN_RECORD_INSTANCES;
  if (number & kFuzzPlanCalls) {
    kinds |= ROCATTACH_PLAN_RECORD_API | ROCATTACH_PLAN_RECORD_ARGUMENTS |
             ROCATTACH_PLAN_RECORD_SAMPLES;
  }
  return kinds;
}

std::shared_ptr<const CompiledPlan> NewPlan(uint8_t number) {
  static const auto& architecture = *new ArchitectureCounters("gfx90a");
  auto plan = std::make_shared<CompiledPlan>();
  plan->counter_names = {"A", "B", "C"};
  plan->counter_gpus = {"GPU-0123456789abcdef"};
  plan->target.gpus.resize(1);
  plan->target.gpus[0].agent_id = kAgent;
  plan->gpu_architectures = {0};
  plan->architectures.resize(1);
  plan->architectures[0].counters = &architecture;
  plan->architectures[0].dispatch.passes = {{{"A", "B", "C"}}, {{"A"}}};
  plan->architectures[0].sampler.passes = {{{"A", "B"}}};
  for (ExactSelection& selection : plan->selections) {
    selection.wanted = true;
    if (number & kFuzzPlanOfKernels) {
      selection.kernels = *KernelFilter::Create({"gemm"}, {});
    }
    if (number & kFuzzPlanOfNumbers) {
      selection.agents = {kAgent};
      selection.dispatches = {{2, 1000}};
    }
  }
  plan->image = std::make_unique<rocattach_plan>();
  plan->image->magic = ROCATTACH_PLAN_MAGIC;
  plan->image->version = ROCATTACH_PLAN_VERSION;
  plan->image->bytes = sizeof(rocattach_plan);
  plan->image->record_kinds = RecordKinds(number);
  plan->image->passes = 3;
  return plan;
}

void CheckNames(const std::vector<std::string>& names,
                absl::Span<const rocattach_counter_value> readings) {
  for (const rocattach_counter_value& reading : readings) {
    Require(reading.counter < names.size() && reading.instances > 0);
  }
}

}  // namespace

std::shared_ptr<const CompiledPlan> FuzzPlan(uint8_t number) {
  using Plans = std::array<std::shared_ptr<const CompiledPlan>, kFuzzPlans>;
  static Plans& plans = *new Plans;
  number %= kFuzzPlans;
  if (plans[number] == nullptr) plans[number] = NewPlan(number);
  return plans[number];
}

void CheckingSink::BeginCall() {
  Require(!ended_);
  on_call_();
}

void CheckingSink::CheckReadings(
    const std::vector<CounterPass>& passes, uint32_t pass,
    absl::Span<const rocattach_counter_value> readings) const {
  CheckNames(plan_->counter_names, readings);
  if (readings.empty()) return;
  Require(pass < passes.size());
  Require(readings.size() <= ROCATTACH_VALUES_PER_SLOT * passes[pass].counters.size());
}

void CheckingSink::OnDispatches(ProcessId, absl::Span<const DispatchEvent> events) {
  BeginCall();
  Require(reads_ && !events.empty());
  for (const DispatchEvent& event : events) {
    Require(event.for_timestamps || event.for_counters);
    CheckReadings(plan_->architectures[0].dispatch.passes, event.pass, event.readings);
    Require(event.readings.empty() || event.dispatch.agent_id == kAgent);
  }
}

void CheckingSink::OnCopies(ProcessId, absl::Span<const rocattach_copy> copies) {
  BeginCall();
  Require(!copies.empty());
}

void CheckingSink::OnApiCalls(ProcessId, absl::Span<const ApiEvent> events) {
  BeginCall();
  for (const ApiEvent& event : events) {
    Require(event.function < ROCATTACH_PLAN_API_FUNCTIONS);
    Require(event.begin_ns <= event.end_ns);
    Require(event.text.size() <= 2 * ROCATTACH_API_MAX_TEXT_BYTES);
  }
}

void CheckingSink::OnSamples(ProcessId, absl::Span<const SampleEvent> events) {
  BeginCall();
  for (const SampleEvent& event : events) {
    Require(event.begin_ns <= event.end_ns && event.agent_id == kAgent);
    CheckReadings(plan_->architectures[0].sampler.passes, event.pass, event.readings);
  }
}

void CheckingSink::OnMemory(ProcessId, uint64_t count) {
  BeginCall();
  Require(count > 0);
}

void CheckingSink::OnTargetEnded(ProcessId) {
  Require(!ended_);
  ended_ = true;
}

void CheckingMeter::AddDispatches(absl::Span<const rocattach_dispatch> records) {
  dispatches += records.size();
}

void CheckingMeter::AddSampled(absl::Span<const rocattach_dispatch> records,
                               absl::Span<const uint32_t> weights) {
  Require(records.size() == weights.size());
  for (const uint32_t weight : weights) Require(weight > 0);
  dispatches += records.size();
}

void CheckingMeter::AddCopies(absl::Span<const rocattach_copy> records) {
  copies += records.size();
}

void CheckingMeter::AddCounters(uint32_t, const std::vector<std::string>& names,
                                absl::Span<const rocattach_counter_value> readings) {
  CheckNames(names, readings);
}

void CheckingMeter::AddSample(uint32_t, const std::vector<std::string>& names,
                              absl::Span<const rocattach_counter_value> readings,
                              uint64_t span_ns) {
  CheckNames(names, readings);
  Require(span_ns > 0);
}

void CheckingMeter::Update(const TargetStanding& standing) {
  Require(!ended);
  Require(standing.ring_fill >= 0 && standing.ring_fill <= 1);
}

void CheckingMeter::End() {
  Require(!ended);
  ended = true;
}

}  // namespace rocattach
