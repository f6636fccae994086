#include "userspace/session/session_sink.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rocattach {
namespace {

template <typename Fixed>
struct RecordWithCounters {
  // A record and the values behind it, in one piece of 8-byte aligned memory.
  RecordWithCounters(const Fixed& fixed,
                     const std::vector<rocattach_record_counter_t>& values)
      : words((sizeof(Fixed) + values.size() * sizeof(values[0])) / 8) {
    static_assert(sizeof(Fixed) % 8 == 0 &&
                  sizeof(rocattach_record_counter_t) % 8 == 0);
    std::memcpy(words.data(), &fixed, sizeof(Fixed));
    if (!values.empty()) {
      std::memcpy(words.data() + sizeof(Fixed) / 8, values.data(),
                  values.size() * sizeof(values[0]));
    }
    header()->bytes = static_cast<uint32_t>(words.size() * 8);
  }
  rocattach_record_header_t* header() {
    return reinterpret_cast<rocattach_record_header_t*>(words.data());
  }
  std::vector<uint64_t> words;
};

std::optional<double> Reduce(const CounterReading& reading, Reduction reduction) {
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

rocattach_record_profiler_t ProfilerRecord(TargetId target,
                                           const DispatchEvent& event) {
  const rocattach_dispatch& dispatch = event.dispatch;
  rocattach_record_profiler_t record = {};
  record.header.kind = ROCATTACH_PROFILER_RECORD;
  record.header.bytes = sizeof(record);
  record.pid = target.pid;
  record.tid = dispatch.tid;
  record.gpu_id = dispatch.agent_id;
  record.queue_id = dispatch.queue_id;
  record.kernel_id = dispatch.kernel_id;
  record.pass = event.pass;
  record.correlation_id = dispatch.correlation_id;
  record.timestamps = {dispatch.start_ns, dispatch.end_ns};
  const uint32_t grid[3] = {dispatch.grid_x, dispatch.grid_y, dispatch.grid_z};
  const uint32_t group[3] = {dispatch.workgroup_x, dispatch.workgroup_y,
                             dispatch.workgroup_z};
  std::copy(grid, grid + 3, record.grid_size);
  std::copy(group, group + 3, record.workgroup_size);
  record.lds_bytes = dispatch.lds_bytes;
  record.scratch_bytes = dispatch.scratch_bytes;
  if (event.for_timestamps) record.selected_by |= ROCATTACH_SELECTED_BY_TIMESTAMPS;
  if (event.for_counters) record.selected_by |= ROCATTACH_SELECTED_BY_COUNTERS;
  return record;
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

std::vector<rocattach_record_counter_t> RequestedValues(
    const CompiledPlan& plan, const PlanArchitecture& architecture,
    const PassPlan& passes, const TargetGpu& gpu, const std::vector<std::string>& names,
    uint32_t pass, absl::Span<const CounterReading> readings) {
  auto reading_of = [&](const std::string& name) -> const CounterReading* {
    for (const CounterReading& reading : readings) {
      if (reading.counter < plan.counter_names.size() &&
          plan.counter_names[reading.counter] == name) {
        return &reading;
      }
    }
    return nullptr;
  };
  std::vector<rocattach_record_counter_t> values;
  for (const PlannedValue& wanted : passes.values) {
    if (std::find(wanted.passes.begin(), wanted.passes.end(), pass) ==
        wanted.passes.end()) {
      continue;
    }
    std::optional<double> value;
    if (wanted.metric) {
      const DerivedMetric* metric = architecture.counters->FindMetric(wanted.name);
      value = architecture.counters->Evaluate(
          *metric,
          [&](const std::string& name, Reduction reduction) -> std::optional<double> {
            const CounterReading* reading = reading_of(name);
            return reading != nullptr ? Reduce(*reading, reduction)
                                      : AgentConstant(gpu, name);
          });
    } else if (const CounterReading* reading = reading_of(wanted.name)) {
      value = reading->sum;
    }
    if (!value.has_value()) continue;
    const auto place = std::find(names.begin(), names.end(), wanted.name);
    values.push_back({static_cast<uint32_t>(place - names.begin()), 0, *value});
  }
  return values;
}

SessionSink::SessionSink(std::shared_ptr<RecordRouter> router,
                         const std::vector<FilterSpec>& filters,
                         std::function<void(TargetId)> ended)
    : router_(std::move(router)), ended_(std::move(ended)) {
  for (const FilterSpec& filter : filters) {
    if (filter.kind == FilterKind::kCounters) counter_names_ = filter.CounterList();
    if (filter.kind == FilterKind::kCountersSampler) {
      sampler_names_ = filter.CounterList();
    }
  }
}

void SessionSink::AddTarget(TargetId target, std::shared_ptr<const CompiledPlan> plan) {
  std::lock_guard<std::mutex> lock(mutex_);
  plans_[target] = std::move(plan);
}

std::shared_ptr<const CompiledPlan> SessionSink::PlanOf(TargetId target) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = plans_.find(target);
  return found == plans_.end() ? nullptr : found->second;
}

void SessionSink::OnDispatches(TargetId target,
                               absl::Span<const DispatchEvent> events) {
  const std::shared_ptr<const CompiledPlan> plan = PlanOf(target);
  if (plan == nullptr) return;
  for (const DispatchEvent& event : events) {
    rocattach_record_profiler_t record = ProfilerRecord(target, event);
    std::vector<rocattach_record_counter_t> values;
    const uint32_t agent = event.dispatch.agent_id;
    const TargetGpu* gpu = plan->Gpu(agent);
    const PlanArchitecture* architecture = plan->Architecture(agent);
    if (event.for_counters && gpu != nullptr && architecture != nullptr) {
      values = RequestedValues(*plan, *architecture, architecture->dispatch, *gpu,
                               counter_names_, event.pass, event.readings);
    }
    record.counters_count = static_cast<uint32_t>(values.size());
    RecordWithCounters whole(record, values);
    router_->Take(whole.header());
  }
}

void SessionSink::OnCopies(TargetId target, absl::Span<const rocattach_copy> copies) {
  if (PlanOf(target) == nullptr) return;
  for (const rocattach_copy& copy : copies) {
    rocattach_record_tracer_t record = {};
    record.header.kind = ROCATTACH_TRACER_RECORD;
    record.header.bytes = sizeof(record);
    record.pid = target.pid;
    record.tid = copy.tid;
    record.domain = ROCATTACH_ACTIVITY_DOMAIN_HSA_OPS;
    record.operation_id = copy.direction;
    record.correlation_id = copy.correlation_id;
    record.timestamps = {copy.start_ns, copy.end_ns};
    record.source_gpu_id = copy.src_agent_id;
    record.target_gpu_id = copy.dst_agent_id;
    record.bytes = copy.bytes;
    router_->Take(&record.header);
  }
}

void SessionSink::OnApiCalls(TargetId target, absl::Span<const ApiEvent> events) {
  if (PlanOf(target) == nullptr) return;
  for (const ApiEvent& event : events) {
    rocattach_record_tracer_t record = {};
    record.header.kind = ROCATTACH_TRACER_RECORD;
    record.header.bytes = sizeof(record);
    record.pid = target.pid;
    record.tid = event.tid;
    record.domain = event.domain;
    record.operation_id = event.function;
    record.correlation_id = event.correlation_id;
    record.timestamps = {event.begin_ns, event.end_ns};
    router_->Take(&record.header);
  }
}

void SessionSink::OnSamples(TargetId target, absl::Span<const SampleEvent> events) {
  const std::shared_ptr<const CompiledPlan> plan = PlanOf(target);
  if (plan == nullptr) return;
  for (const SampleEvent& event : events) {
    const TargetGpu* gpu = plan->Gpu(event.agent_id);
    const PlanArchitecture* architecture = plan->Architecture(event.agent_id);
    if (gpu == nullptr || architecture == nullptr) continue;
    const std::vector<rocattach_record_counter_t> values =
        RequestedValues(*plan, *architecture, architecture->sampler, *gpu,
                        sampler_names_, event.pass, event.readings);
    rocattach_record_counters_sampler_t record = {};
    record.header.kind = ROCATTACH_COUNTERS_SAMPLER_RECORD;
    record.pid = target.pid;
    record.gpu_id = event.agent_id;
    record.pass = event.pass;
    record.timestamps = {event.begin_ns, event.end_ns};
    record.num_counters = static_cast<uint32_t>(values.size());
    RecordWithCounters whole(record, values);
    router_->Take(whole.header());
  }
}

void SessionSink::OnTargetEnded(TargetId target) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (plans_.erase(target) == 0) return;
  }
  router_->TargetEnded(target);
  ended_(target);
}

}  // namespace rocattach
