#include "userspace/report/report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/report/report_words.h"
#include "userspace/report/text.h"
#include "userspace/stream/losses.h"

namespace rocattach {
namespace {

// Approximate limit on a report's memory: malicious streams can have unlimited names.
constexpr size_t kMaxBytes = 768 << 20;
// The limit for one process, so that it cannot use up the space of others.
constexpr size_t kMaxProcessBytes = 64 << 20;
// Limit on processes, about 2 KiB each without names.
constexpr size_t kMaxProcesses = 128 << 10;
constexpr size_t kEntryBytes = 512;
constexpr size_t kMaxDamages = 64;

void ExtendSpan(uint64_t start_ns, uint64_t end_ns, ProcessReport* process) {
  if (start_ns == 0 || end_ns < start_ns) return;
  if (process->first_ns == 0 || start_ns < process->first_ns) {
    process->first_ns = start_ns;
  }
  process->last_ns = std::max(process->last_ns, end_ns);
}

// True if start and end are present and in order; a target can report any values.
bool HasTimes(uint16_t flags, uint64_t start_ns, uint64_t end_ns) {
  return (flags & (ROCATTACH_DISPATCH_UNTIMED | ROCATTACH_DISPATCH_UNFINISHED)) == 0 &&
         start_ns != 0 && end_ns >= start_ns;
}

}  // namespace

std::vector<KernelReport> ProcessReport::KernelsByName() const {
  std::map<std::string, KernelReport> merged;
  for (const auto& [id, kernel] : kernels) {
    if (kernel.count == 0) continue;
    // Kernels without a name stay apart: they may be different ones.
    std::string key = kernel.name.empty() ? absl::StrCat("\xff#", id) : kernel.name;
    auto [it, is_new] = merged.emplace(key, kernel);
    if (is_new) continue;
    it->second.count += kernel.count;
    it->second.durations.Merge(kernel.durations);
  }
  std::vector<KernelReport> list;
  list.reserve(merged.size());
  for (auto& [name, kernel] : merged) list.push_back(std::move(kernel));
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a.durations.sum(), a.count) >
           std::make_pair(b.durations.sum(), b.count);
  });
  return list;
}

const v1::WindowEvent* ProcessReport::Verdict() const {
  for (const v1::WindowEvent& window : windows) {
    if (window.state() == v1::WINDOW_STATE_ATTACHED) return &window;
  }
  return windows.empty() ? nullptr : &windows.back();
}

uint64_t ProcessReport::MissingFromStream() const {
  if (!account) return 0;
  uint64_t written = account->dispatches_delivered() + account->copies_delivered();
  uint64_t read = dispatches + copies_count;
  return written > read ? written - read : 0;
}

uint64_t ProcessReport::Lost() const {
  uint64_t lost = MissingFromStream();
  if (account) lost += LostRecords(*account);
  return lost;
}

int64_t ProcessReport::Imbalance() const {
  if (!account || !account->final()) return 0;
  uint64_t seen = account->dispatches_seen() + account->copies_seen();
  uint64_t accounted = account->dispatches_delivered() + account->copies_delivered() +
                       DroppedRecords(*account) + account->sampled_out();
  return static_cast<int64_t>(seen - accounted);
}

bool ProcessReport::LacksAccount() const {
  const v1::WindowEvent* verdict = Verdict();
  const bool recorded =
      dispatches + copies_count + counted + samples + api_call_count + memory_count >
          0 ||
      (verdict != nullptr && (verdict->state() == v1::WINDOW_STATE_ATTACHED ||
                              verdict->state() == v1::WINDOW_STATE_OPEN));
  return recorded && (!account || !account->final());
}

uint64_t ProcessReport::TimesNotBelievable() const {
  return std::max(out_of_order, account ? account->times_not_believable() : 0);
}

bool ProcessReport::NotBelievable() const {
  return account && !account->not_believable().empty();
}

std::string ProcessReport::UnseenWork() const {
  return account ? account->unseen_work() : "";
}

bool ProcessReport::DiedDuringAttach() const {
  const v1::WindowEvent* verdict = Verdict();
  return verdict != nullptr &&
         verdict->reason() == v1::ATTACH_REASON_DIED_DURING_ATTACH;
}

uint64_t RecordingReport::Lost() const {
  uint64_t lost = 0;
  for (const auto& process : processes) {
    if (process->NotBelievable()) continue;
    lost += from_beginning || !process->account ? process->Lost()
                                                : DroppedRecords(*process->account);
  }
  return lost;
}

std::vector<std::string> RecordingReport::WhyIncomplete() const {
  std::vector<std::string> why;
  if (!end) {
    why.push_back("it has no end: the recorder still runs, or was killed");
  } else if (end->recovery().end_made()) {
    why.push_back("it was recovered from a file without an end");
  }
  uint64_t without = 0, not_believable = 0, unseen = 0;
  for (const auto& process : processes) {
    without += process->LacksAccount() ? 1 : 0;
    not_believable += process->NotBelievable() ? 1 : 0;
    unseen += process->UnseenWork().empty() ? 0 : 1;
  }
  if (without > 0) {
    why.push_back(
        absl::StrCat("of ", Plural(without, "recorded process", "recorded processes"),
                     " there is no final account, so what ",
                     without == 1 ? "it" : "they", " did last may be missing"));
  }
  if (not_believable > 0) {
    why.push_back(absl::StrCat(Plural(not_believable, "process", "processes"),
                               not_believable == 1 ? " has" : " have",
                               " implausible numbers, so what was lost there is not "
                               "known"));
  }
  if (unseen > 0) {
    why.push_back(absl::StrCat(Plural(unseen, "process", "processes"),
                               " used GPUs in ways that are not recorded"));
  }
  return why;
}

bool LostInRecovery(const v1::Recovery& recovery) {
  return recovery.frames_missing() > 0 || recovery.frames_left_out() > 0 ||
         recovery.bytes_skipped() > 0 || recovery.records_lost() > 0;
}

bool Report::HasLosses() const {
  if (stats.damaged()) return true;
  for (const RecordingReport& recording : recordings) {
    if (recording.end && (recording.end->records_dropped() > 0 ||
                          LostInRecovery(recording.end->recovery()))) {
      return true;
    }
    if (!recording.WhyIncomplete().empty()) return true;
    for (const auto& process : recording.processes) {
      // A reader that joined in the middle does not miss what came before.
      bool whole = recording.from_beginning;
      if (process->account && !LossesOf(*process->account).empty()) return true;
      if (whole && process->MissingFromStream() > 0) return true;
      if (process->Imbalance() != 0) return true;
      if (whole && process->account &&
          (process->account->counted_delivered() > process->counted ||
           process->account->samples_delivered() > process->samples ||
           process->account->api_calls_delivered() > process->api_call_count ||
           process->account->memory_delivered() > process->memory_count)) {
        return true;
      }
    }
  }
  return false;
}

bool ReportBuilder::Room(ProcessReport* process, size_t bytes) {
  if (bytes_ + bytes > kMaxBytes || process->bytes + bytes > kMaxProcessBytes) {
    ++process->entries_omitted;
    ++report_.entries_omitted;
    return false;
  }
  bytes_ += bytes;
  process->bytes += bytes;
  return true;
}

ProcessReport* ReportBuilder::Find(const FrameContext& at) {
  auto it = by_stream_.find(at.stream);
  if (it != by_stream_.end()) return it->second;
  if (processes_ == kMaxProcesses) {
    ++report_.entries_omitted;
    overflow_ = std::make_unique<ProcessReport>();
    return overflow_.get();
  }
  ++processes_;
  auto process = std::make_unique<ProcessReport>();
  process->recording = at.recording;
  process->stream = at.stream;
  by_stream_[at.stream] = process.get();
  report_.recordings.back().processes.push_back(std::move(process));
  return report_.recordings.back().processes.back().get();
}

void ReportBuilder::OnRecording(const FrameContext&, const v1::StreamHeader* header) {
  by_stream_.clear();
  demanglers_.clear();
  report_.recordings.emplace_back();
  if (header == nullptr) return;
  report_.recordings.back().header = *header;
  report_.recordings.back().header->clear_descriptors();
}

void ReportBuilder::OnProcess(const FrameContext& at, const v1::Process& process) {
  ProcessReport* report = Find(at);
  // A key frame repeats it.
  const bool known = report->process.has_value();
  if (known || Room(report, process.ByteSizeLong())) report->process = process;
}

void ReportBuilder::OnAgent(const FrameContext& at, const v1::Agent& agent) {
  ProcessReport* process = Find(at);
  const bool known = process->agents.count(agent.id()) > 0;
  if (known || Room(process, kEntryBytes)) process->agents[agent.id()] = agent;
}

void ReportBuilder::OnQueue(const FrameContext& at, const v1::Queue& queue) {
  ProcessReport* process = Find(at);
  const bool known = process->queues.count(queue.id()) > 0;
  if (known || Room(process, kEntryBytes)) process->queues[queue.id()].queue = queue;
}

void ReportBuilder::OnKernel(const FrameContext& at, const v1::Kernel& kernel) {
  ProcessReport* process = Find(at);
  if (auto known = process->kernels.find(kernel.id());
      known != process->kernels.end() && known->second.kernel.name() == kernel.name()) {
    known->second.kernel = kernel;  // a key frame repeats it
    return;
  }
  std::string name = demanglers_.try_emplace(at.stream, Demangler::WithoutCache())
                         .first->second.Demangle(kernel.name());
  if (!Room(process, kEntryBytes + kernel.name().size() + name.size())) return;
  KernelReport& report = process->kernels[kernel.id()];
  report.kernel_id = kernel.id();
  report.kernel = kernel;
  report.name = std::move(name);
}

void ReportBuilder::OnDispatches(const FrameContext& at,
                                 absl::Span<const rocattach_dispatch> records) {
  ProcessReport* process = Find(at);
  process->dispatches += records.size();
  KernelReport* kernel = nullptr;
  QueueReport* queue = nullptr;
  uint32_t kernel_id = 0, queue_id = 0;
  for (const rocattach_dispatch& record : records) {
    if (kernel == nullptr || record.kernel_id != kernel_id) {
      kernel = nullptr;
      kernel_id = record.kernel_id;
      auto it = process->kernels.find(kernel_id);
      if (it == process->kernels.end()) {
        if (!Room(process, kEntryBytes)) continue;
        it = process->kernels.emplace(kernel_id, KernelReport{}).first;
        it->second.kernel_id = kernel_id;
      }
      kernel = &it->second;
    }
    if (queue == nullptr || record.queue_id != queue_id) {
      queue = nullptr;
      queue_id = record.queue_id;
      auto it = process->queues.find(queue_id);
      if (it == process->queues.end()) {
        if (!Room(process, kEntryBytes)) continue;
        it = process->queues.emplace(queue_id, QueueReport{}).first;
        it->second.queue.set_id(queue_id);
        it->second.queue.set_agent_id(record.agent_id);
      }
      queue = &it->second;
    }
    ++kernel->count;
    ++queue->dispatches;
    process->out_of_order += process->launch_order.Add(record);
    if (record.flags & ROCATTACH_DISPATCH_UNFINISHED) {
      ++process->unfinished;
    } else if (record.flags & ROCATTACH_DISPATCH_UNTIMED) {
      ++process->untimed;
    }
    if (!HasTimes(record.flags, record.start_ns, record.end_ns)) continue;
    kernel->durations.Add(record.end_ns - record.start_ns);
    ExtendSpan(record.start_ns, record.end_ns, process);
    if (GpuActivity* gpu = ActivityOf(process, record.agent_id); gpu != nullptr) {
      gpu->Add(record.queue_id, record.start_ns, record.end_ns);
    }
  }
}

GpuActivity* ReportBuilder::ActivityOf(ProcessReport* process, uint32_t agent_id) {
  auto known = process->activity.find(agent_id);
  if (known == process->activity.end()) {
    if (!Room(process, kEntryBytes)) return nullptr;
    known = process->activity.try_emplace(agent_id, &kept_intervals_).first;
  }
  return &known->second;
}

void ReportBuilder::OnCopies(const FrameContext& at,
                             absl::Span<const rocattach_copy> records) {
  ProcessReport* process = Find(at);
  process->copies_count += records.size();
  for (const rocattach_copy& record : records) {
    v1::CopyDirection direction = v1::CopyDirection_IsValid(record.direction)
                                      ? static_cast<v1::CopyDirection>(record.direction)
                                      : v1::COPY_DIRECTION_UNKNOWN;
    CopyReport& copies = process->copies[direction];
    copies.direction = direction;
    ++copies.count;
    copies.bytes += record.bytes;
    if (record.flags & ROCATTACH_DISPATCH_UNFINISHED) {
      ++process->unfinished;
    } else if (record.flags & ROCATTACH_DISPATCH_UNTIMED) {
      ++process->untimed;
    }
    if (!HasTimes(record.flags, record.start_ns, record.end_ns)) continue;
    copies.timed_bytes += record.bytes;
    copies.durations.Add(record.end_ns - record.start_ns);
    ExtendSpan(record.start_ns, record.end_ns, process);
  }
}

void ReportBuilder::OnWindow(const FrameContext& at, const v1::WindowEvent& event) {
  ProcessReport* process = Find(at);
  auto same_window = [&](const v1::WindowEvent& known) {
    return known.hit_ns() == event.hit_ns() || event.hit_ns() == 0;
  };
  if (process->windows.empty() || !same_window(process->windows.back())) {
    // A key frame repeats earlier windows.
    auto it =
        std::find_if(process->windows.begin(), process->windows.end(), same_window);
    if (it != process->windows.end() && at.repeated) return;
    if (!Room(process, kEntryBytes + event.ByteSizeLong())) return;
    process->windows.push_back(event);
    return;
  }
  // Later events add what earlier ones lacked; fields that are zero keep the earlier
  // value. The state is that of the last event.
  v1::WindowEvent* merged = &process->windows.back();
  if (event.state() != merged->state()) merged->clear_detail();
  merged->MergeFrom(event);
}

void ReportBuilder::OnAccount(const FrameContext& at, const v1::LossAccount& account) {
  Find(at)->account = account;
}

void ReportBuilder::OnProcessEnd(const FrameContext& at, const v1::ProcessEnd& end) {
  Find(at)->end = end;
}

void ReportBuilder::OnSummary(const FrameContext&, const v1::WatcherSummary& summary) {
  report_.recordings.back().summary = summary;
}

void ReportBuilder::OnStreamEnd(const FrameContext&, const v1::StreamEnd& end) {
  report_.recordings.back().end = end;
}

void ReportBuilder::OnDamage(const Damage& damage) {
  if (damage.kind == Damage::Kind::kNoBeginning && !report_.recordings.empty()) {
    report_.recordings.back().from_beginning = false;
  }
  if (report_.damages.size() < kMaxDamages) {
    report_.damages.push_back(damage);
  } else {
    ++report_.damages_omitted;
  }
}

Report ReportBuilder::Finish(const ReadStats& stats) {
  report_.stats = stats;
  for (RecordingReport& recording : report_.recordings) {
    for (auto& process : recording.processes) {
      FinishSessions(process.get());
      for (auto& [agent, activity] : process->activity) activity.Finish();
    }
  }
  by_stream_.clear();
  return std::exchange(report_, {});
}

// The part of a report that sessions collected.

namespace {

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
