#include "userspace/session/session_sink.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rocattach {
namespace {

// Maximum size of what a consumer is given at once, if no single record is larger.
constexpr size_t kMostBytesAtOnce = 256 << 10;

// The number of a GPU among those of the process.
uint32_t GpuNumber(const CompiledPlan& plan, uint32_t agent_id) {
  const TargetGpu* gpu = plan.Gpu(agent_id);
  return gpu == nullptr ? kNoGpu : static_cast<uint32_t>(gpu - plan.target.gpus.data());
}

DispatchRecord ProfilerRecord(ProcessId target, const CompiledPlan& plan,
                              const DispatchEvent& event) {
  const rocattach_dispatch& dispatch = event.dispatch;
  DispatchRecord record = {};
  record.header.kind = SessionRecordKind::kDispatch;
  record.header.bytes = sizeof(record);
  record.pid = target.pid;
  record.tid = dispatch.tid;
  record.gpu_id = GpuNumber(plan, dispatch.agent_id);
  record.queue_id = dispatch.queue_id;
  record.kernel_id = dispatch.kernel_id;
  record.pass = event.pass;
  record.correlation_id = dispatch.correlation_id;
  record.times = {dispatch.start_ns, dispatch.end_ns};
  const uint32_t grid[3] = {dispatch.grid_x, dispatch.grid_y, dispatch.grid_z};
  const uint32_t group[3] = {dispatch.workgroup_x, dispatch.workgroup_y,
                             dispatch.workgroup_z};
  std::copy(grid, grid + 3, record.grid_size);
  std::copy(group, group + 3, record.workgroup_size);
  record.lds_bytes = dispatch.lds_bytes;
  record.scratch_bytes = dispatch.scratch_bytes;
  if (event.for_timestamps) record.selected_by |= kSelectedByTimestamps;
  if (event.for_counters) record.selected_by |= kSelectedByCounters;
  return record;
}

}  // namespace

void CollectedCounts::Add(const CollectedCounts& more) {
  dispatches += more.dispatches;
  counted += more.counted;
  samples += more.samples;
  api_calls += more.api_calls;
  copies += more.copies;
  memory += more.memory;
}

SessionSink::SessionSink(std::shared_ptr<RecordConsumer> consumer,
                         const std::vector<FilterSpec>& filters,
                         std::shared_ptr<const SessionEnd> end,
                         std::function<void(ProcessId)> ended)
    : consumer_(std::move(consumer)), end_(std::move(end)), ended_(std::move(ended)) {
  for (const FilterSpec& filter : filters) {
    if (filter.kind == FilterKind::kCounters) counter_names_ = filter.CounterList();
    if (filter.kind == FilterKind::kCountersSampler) {
      sampler_names_ = filter.CounterList();
    }
  }
}

void SessionSink::AddTarget(ProcessId id, std::shared_ptr<const CompiledPlan> plan) {
  auto target = std::make_shared<Target>();
  for (const PlanArchitecture& architecture : plan->architectures) {
    target->dispatch.emplace_back(*plan, architecture, architecture.dispatch,
                                  counter_names_);
    target->sampler.emplace_back(*plan, architecture, architecture.sampler,
                                 sampler_names_);
  }
  target->plan = std::move(plan);
  absl::MutexLock lock(&mutex_);
  targets_[id] = std::move(target);
}

std::shared_ptr<SessionSink::Target> SessionSink::FindRead(ProcessId id) const {
  if (consumer_ == nullptr) return nullptr;
  absl::MutexLock lock(&mutex_);
  auto found = targets_.find(id);
  return found == targets_.end() ? nullptr : found->second;
}

void SessionSink::Count(const CollectedCounts& more) {
  absl::MutexLock lock(&mutex_);
  collected_.Add(more);
}

CollectedCounts SessionSink::collected() const {
  absl::MutexLock lock(&mutex_);
  return collected_;
}

uint64_t* SessionSink::AddBytes(size_t bytes, Target* target) {
  if ((target->records.size() * sizeof(uint64_t)) + bytes > kMostBytesAtOnce) {
    PassOn(target);
  }
  const size_t at = target->records.size();
  target->records.resize(at + bytes / sizeof(uint64_t));
  return target->records.data() + at;
}

void SessionSink::PassOn(Target* target) {
  if (target->records.empty()) return;
  // The consumer may run a program's callbacks: nothing of ours is in use meanwhile.
  std::vector<uint64_t> records = std::move(target->records);
  consumer_->Consume(
      reinterpret_cast<const RecordHeader*>(records.data()),
      reinterpret_cast<const RecordHeader*>(records.data() + records.size()));
  records.clear();
  target->records = std::move(records);
}

void SessionSink::AddRecord(TraceRecord fixed, absl::string_view text, Target* target) {
  if (!text.empty()) fixed.text_bytes = static_cast<uint32_t>(text.size() + 1);
  const size_t bytes = TraceBytes(fixed.text_bytes);
  fixed.header.kind = SessionRecordKind::kTrace;
  fixed.header.bytes = static_cast<uint32_t>(bytes);
  uint64_t* record = AddBytes(bytes, target);
  std::memcpy(record, &fixed, sizeof(fixed));
  if (!text.empty()) {
    std::memcpy(record + sizeof(fixed) / 8, text.data(), text.size());
  }
}

void SessionSink::Request(const std::vector<RequestedValues>& requested,
                          uint32_t agent_id, uint32_t pass,
                          absl::Span<const rocattach_counter_value> readings,
                          Target* target) {
  target->values.clear();
  const CompiledPlan& plan = *target->plan;
  const TargetGpu* gpu = plan.Gpu(agent_id);
  const PlanArchitecture* architecture = plan.Architecture(agent_id);
  if (gpu == nullptr || architecture == nullptr) return;
  const auto index = static_cast<size_t>(architecture - plan.architectures.data());
  requested[index].Append(pass, *gpu, readings, &target->values);
}

template <typename Fixed>
void SessionSink::AddRecord(const Fixed& fixed, Target* target) {
  const auto& values = target->values;
  const size_t values_bytes = values.size() * sizeof(values[0]);
  static_assert(sizeof(Fixed) % 8 == 0 && sizeof(values[0]) % 8 == 0);
  uint64_t* record = AddBytes(sizeof(Fixed) + values_bytes, target);
  std::memcpy(record, &fixed, sizeof(Fixed));
  if (!values.empty()) {
    std::memcpy(record + sizeof(Fixed) / 8, values.data(), values_bytes);
  }
  auto* header = reinterpret_cast<RecordHeader*>(record);
  header->bytes = static_cast<uint32_t>(sizeof(Fixed) + values_bytes);
}

void SessionSink::CountDispatches(uint64_t for_timestamps, uint64_t for_counters) {
  Count({.dispatches = for_timestamps, .counted = for_counters});
}

void SessionSink::OnDispatches(ProcessId id, absl::Span<const DispatchEvent> events) {
  uint64_t for_timestamps = 0, for_counters = 0;
  for (const DispatchEvent& event : events) {
    for_timestamps += event.for_timestamps ? 1 : 0;
    for_counters += event.for_counters ? 1 : 0;
  }
  CountDispatches(for_timestamps, for_counters);
  const std::shared_ptr<Target> target = FindRead(id);
  if (target == nullptr) return;
  for (const DispatchEvent& event : events) {
    DispatchRecord record = ProfilerRecord(id, *target->plan, event);
    target->values.clear();
    if (event.for_counters) {
      Request(target->dispatch, event.dispatch.agent_id, event.pass, event.readings,
              target.get());
    }
    record.values = static_cast<uint32_t>(target->values.size());
    AddRecord(record, target.get());
  }
  PassOn(target.get());
}

void SessionSink::OnCopies(ProcessId id, absl::Span<const rocattach_copy> copies) {
  Count({.copies = copies.size()});
  const std::shared_ptr<Target> target = FindRead(id);
  if (target == nullptr) return;
  for (const rocattach_copy& copy : copies) {
    TraceRecord record = {};
    record.pid = id.pid;
    record.tid = copy.tid;
    record.domain = TraceDomain::kMemoryCopies;
    record.operation_id = copy.direction;
    record.correlation_id = copy.correlation_id;
    record.times = {copy.start_ns, copy.end_ns};
    record.source_gpu_id = GpuNumber(*target->plan, copy.src_agent_id);
    record.target_gpu_id = GpuNumber(*target->plan, copy.dst_agent_id);
    record.bytes = copy.bytes;
    AddRecord(record, {}, target.get());
  }
  PassOn(target.get());
}

void SessionSink::OnApiCalls(ProcessId id, absl::Span<const ApiEvent> events) {
  Count({.api_calls = events.size()});
  const std::shared_ptr<Target> target = FindRead(id);
  if (target == nullptr) return;
  for (const ApiEvent& event : events) {
    TraceRecord record = {};
    record.pid = id.pid;
    record.tid = event.tid;
    record.domain = event.domain;
    record.operation_id = event.function;
    record.correlation_id = event.correlation_id;
    record.times = {event.begin_ns, event.end_ns};
    record.source_gpu_id = record.target_gpu_id = kNoGpu;
    AddRecord(record, event.text, target.get());
  }
  PassOn(target.get());
}

void SessionSink::OnSamples(ProcessId id, absl::Span<const SampleEvent> events) {
  Count({.samples = events.size()});
  const std::shared_ptr<Target> target = FindRead(id);
  if (target == nullptr) return;
  for (const SampleEvent& event : events) {
    if (target->plan->Architecture(event.agent_id) == nullptr) continue;
    Request(target->sampler, event.agent_id, event.pass, event.readings, target.get());
    SampleRecord record = {};
    record.header.kind = SessionRecordKind::kSample;
    record.pid = id.pid;
    record.gpu_id = GpuNumber(*target->plan, event.agent_id);
    record.pass = event.pass;
    record.times = {event.begin_ns, event.end_ns};
    record.values = static_cast<uint32_t>(target->values.size());
    AddRecord(record, target.get());
  }
  PassOn(target.get());
}

void SessionSink::OnMemory(ProcessId, uint64_t count) {
  Count({.memory = count});
}

void SessionSink::OnTargetEnded(ProcessId id) {
  {
    absl::MutexLock lock(&mutex_);
    if (targets_.erase(id) == 0) return;
  }
  if (consumer_ != nullptr) consumer_->TargetEnded(id);
  ended_(id);
}

}  // namespace rocattach
