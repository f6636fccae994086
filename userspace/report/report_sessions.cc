// What sessions collected, in a report.
#include <utility>

#include "userspace/report/report.h"

namespace rocattach {
namespace {

constexpr size_t kEntryBytes = 512;
// Maximum events of one process in a report.
constexpr size_t kMaxSessionEvents = 4096;

bool SameOperation(const CounterRecord& a, const CounterRecord& b) {
  return a.operation == b.operation && a.session == b.session && a.plan == b.plan &&
         a.pass == b.pass && a.agent_id == b.agent_id && a.kernel_id == b.kernel_id;
}

}  // namespace

void ReportBuilder::OnSessionPlan(const FrameContext& at, const v1::SessionPlan& plan) {
  ProcessReport* process = Find(at);
  auto known = process->plans.find(plan.id());
  if (known != process->plans.end()) return;  // a key frame repeats it
  // The message, and a few strings for each of its counters.
  if (!Room(process, kEntryBytes + 8 * plan.ByteSizeLong())) return;
  PlanReport& report = process->plans[plan.id()];
  report.plan = plan;
  report.counters = std::make_unique<SessionCounters>(plan);
}

void ReportBuilder::OnApiFunction(const FrameContext& at,
                                  const v1::ApiFunction& function) {
  ProcessReport* process = Find(at);
  const std::pair<uint32_t, uint32_t> key(function.domain(), function.function());
  auto known = process->api_calls.find(key);
  if (known == process->api_calls.end()) {
    if (!Room(process, kEntryBytes + function.name().size())) return;
    known = process->api_calls.try_emplace(key).first;
  }
  known->second.function = function.name();
}

uint64_t ReportBuilder::AddValues(
    ProcessReport* process, absl::Span<const CounterRecord> records,
    size_t (SessionCounters::*add)(absl::Span<const CounterRecord>)) {
  uint64_t operations = 0;
  while (!records.empty()) {
    size_t count = 1;
    while (count < records.size() && SameOperation(records[0], records[count])) ++count;
    const absl::Span<const CounterRecord> values = records.subspan(0, count);
    records.remove_prefix(count);
    ++operations;
    auto plan = process->plans.find(values[0].plan);
    if (plan == process->plans.end()) {
      process->unknown_values += count;
      continue;
    }
    // One operation takes little memory, so the limit is checked for the next one.
    if (!Room(process, 0)) continue;
    const size_t bytes = (plan->second.counters.get()->*add)(values);
    bytes_ += bytes;
    process->bytes += bytes;
  }
  return operations;
}

void ReportBuilder::OnCounters(const FrameContext& at,
                               absl::Span<const CounterRecord> records) {
  ProcessReport* process = Find(at);
  process->counted += AddValues(process, records, &SessionCounters::AddDispatch);
}

void ReportBuilder::OnSamples(const FrameContext& at,
                              absl::Span<const CounterRecord> records) {
  ProcessReport* process = Find(at);
  process->samples += AddValues(process, records, &SessionCounters::AddSample);
}

void ReportBuilder::OnApiCalls(const FrameContext& at,
                               absl::Span<const ApiCallRecord> records) {
  ProcessReport* process = Find(at);
  process->api_call_count += records.size();
  for (const ApiCallRecord& record : records) {
    const std::pair<uint32_t, uint32_t> key(record.domain, record.function);
    auto known = process->api_calls.find(key);
    if (known == process->api_calls.end()) {
      if (!Room(process, kEntryBytes)) continue;
      known = process->api_calls.try_emplace(key).first;
    }
    ++known->second.count;
    if (record.begin_ns != 0 && record.end_ns >= record.begin_ns) {
      known->second.durations.Add(record.end_ns - record.begin_ns);
    }
  }
}

void ReportBuilder::OnMemory(const FrameContext& at,
                             absl::Span<const MemoryRecord> records) {
  ProcessReport* process = Find(at);
  process->memory_count += records.size();
  for (const MemoryRecord& record : records) {
    const bool known = v1::MemoryOperation_IsValid(record.operation);
    MemoryReport& memory = process->memory[known ? record.operation : 0];
    ++memory.count;
    memory.bytes += record.bytes;
    if (record.begin_ns != 0 && record.end_ns >= record.begin_ns) {
      memory.durations.Add(record.end_ns - record.begin_ns);
    }
  }
}

void ReportBuilder::OnSession(const FrameContext& at, const v1::SessionEvent& event) {
  ProcessReport* process = Find(at);
  if (process->sessions.size() == kMaxSessionEvents) {
    ++report_.entries_omitted;
    return;
  }
  if (Room(process, kEntryBytes + event.ByteSizeLong()))
    process->sessions.push_back(event);
}

void ReportBuilder::OnSampling(const FrameContext& at, const v1::SamplingEvent& event) {
  ProcessReport* process = Find(at);
  std::vector<v1::SamplingEvent>& events = process->sampling;
  // A key frame repeats the last one.
  if (at.repeated && !events.empty() && events.back().time_ns() == event.time_ns()) {
    return;
  }
  if (events.size() == kMaxSessionEvents) {
    ++report_.entries_omitted;
    return;
  }
  if (Room(process, kEntryBytes + event.ByteSizeLong())) events.push_back(event);
}

void ReportBuilder::FinishSessions(ProcessReport* process) {
  for (auto& [id, plan] : process->plans) {
    plan.kernels = plan.counters->Kernels([&](uint32_t kernel) {
      auto found = process->kernels.find(kernel);
      return found == process->kernels.end() ? std::string() : found->second.name;
    });
    plan.samples = plan.counters->Samples();
    process->unknown_values += plan.counters->unknown_values();
  }
}

}  // namespace rocattach
