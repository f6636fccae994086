#include "userspace/export/exporter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "userspace/base/file.h"
#include "userspace/base/human.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// Maximum bytes of names of all processes that are open at the same time.
constexpr size_t kMaxNameBytes = 512 << 20;
// Maximum number of processes open at the same time, about 1 KiB each without names.
constexpr size_t kMaxProcesses = 128 << 10;
// Maximum number of output names that are kept for the end.
constexpr size_t kMostNamedFiles = 10'000;
// Maximum bytes of an explanation for users.
constexpr size_t kMostDetail = 1024;
// Maximum number of sinks' messages that are kept for the end.
constexpr size_t kMostOmissions = 20;

absl::Status MakeParent(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return absl::OkStatus();
  return MakeDirectories(path.substr(0, slash), 0755);
}

}  // namespace

void Exporter::OnRecording(const FrameContext&, const v1::StreamHeader* header) {
  EndAll();
  ended_.clear();
  auto kept = std::make_shared<v1::StreamHeader>();
  if (header != nullptr) {
    *kept = *header;
    kept->clear_descriptors();
  }
  header_ = std::move(kept);
}

Exporter::Target* Exporter::Find(const FrameContext& at) {
  if (!status_.ok() || at.stream == 0 || ended_.contains(at.stream)) return nullptr;
  const auto known = targets_.find(at.stream);
  if (known != targets_.end()) return known->second.get();
  if (targets_.size() >= kMaxProcesses) return nullptr;
  std::unique_ptr<Target>& target = targets_[at.stream];
  target = std::make_unique<Target>(next_number_++);
  target->process.recording_ = at.recording;
  target->process.stream_ = at.stream;
  if (header_ != nullptr) target->process.header_ = header_;
  return target.get();
}

Exporter::Target* Exporter::FindBegun(const FrameContext& at, size_t records) {
  Target* target = Find(at);
  if (target != nullptr && !target->begun) {
    const absl::Status begun = Begin(target);
    if (begun.ok() || !options_.complete_with_process) {
      status_ = begun;
    } else {
      if (process_errors_.size() < kMostOmissions) {
        process_errors_.emplace_back(begun.message());
      }
      CloseOutputs(target);
      target->outputs.clear();
    }
  }
  // After an error nothing is written at all, which is not an omission.
  if (target == nullptr && status_.ok()) {
    uint64_t& omitted = at.stream == 0               ? ownerless_records_
                        : ended_.contains(at.stream) ? late_records_
                                                     : crowded_records_;
    omitted += records;
  }
  return status_.ok() ? target : nullptr;
}

absl::StatusOr<Exporter::Output*> Exporter::OpenOutput(const ExportFormat& format,
                                                       const Target& target) {
  const std::string wanted = options_.base_name(target.process);
  std::string base = wanted;
  for (int attempt = 1; outputs_.contains({&format, base}); ++attempt) {
    Output& output = outputs_.at({&format, base});
    if (output.shared && output.sink != nullptr) return &output;
    base = absl::StrCat(wanted, "_", target.process.pid());
    if (attempt > 1) absl::StrAppend(&base, "_", attempt);
  }
  RETURN_IF_ERROR(MakeParent(base));
  ASSIGN_OR_RETURN(auto made, format.make(base, options_.output));
  Output& output = outputs_[{&format, base}];
  output = {std::move(made), format.many_processes, 0, format.as_rocprofv3};
  return &output;
}

absl::Status Exporter::Begin(Target* target) {
  target->begun = true;
  ++begun_;
  StartView(target);
  const ExportProcess& process = target->process;
  for (const ExportFormat* format : options_.formats) {
    ASSIGN_OR_RETURN(Output * output, OpenOutput(*format, *target));
    target->outputs.push_back(output);
    ++output->open;
    ExportSink* sink = output->sink.get();
    RETURN_IF_ERROR(sink->BeginProcess(process));
    for (const auto& [id, agent] : process.agents()) {
      RETURN_IF_ERROR(sink->OnAgent(process, agent));
    }
    for (const auto& [id, queue] : process.queues()) {
      RETURN_IF_ERROR(sink->OnQueue(process, queue));
    }
    for (const auto& [id, object] : process.code_objects()) {
      RETURN_IF_ERROR(sink->OnCodeObject(process, object));
    }
    for (const auto& [id, kernel] : process.kernels()) {
      RETURN_IF_ERROR(sink->OnKernel(process, kernel));
    }
    for (const auto& [id, plan] : process.plans()) {
      RETURN_IF_ERROR(sink->OnSessionPlan(process, plan));
    }
    for (const auto& [key, name] : process.functions()) {
      v1::ApiFunction function;
      function.set_domain(static_cast<v1::ApiDomain>(key.first));
      function.set_function(key.second);
      function.set_name(name);
      RETURN_IF_ERROR(sink->OnApiFunction(process, function));
    }
  }
  return absl::OkStatus();
}

void Exporter::OnProcess(const FrameContext& at, const v1::Process& process) {
  Target* target = Find(at);
  if (target == nullptr) return;
  v1::Process& kept = target->process.process_;
  // A key frame repeats the process, and its workload may have become known since.
  if (kept.pid() != 0) return UpdateWorkload(&target->process, process.workload());
  kept = process;
  if (name_bytes_ + kept.ByteSizeLong() > kMaxNameBytes) {
    kept.clear_arguments();
    kept.clear_executable();
    kept.clear_cgroup();
  }
  target->process.bytes_ += kept.ByteSizeLong();
  name_bytes_ += kept.ByteSizeLong();
}

void Exporter::UpdateWorkload(ExportProcess* process, const v1::Workload& workload) {
  v1::Process& kept = process->process_;
  const size_t before = kept.ByteSizeLong();
  if (name_bytes_ + workload.ByteSizeLong() > kMaxNameBytes) return;
  *kept.mutable_workload() = workload;
  const size_t after = kept.ByteSizeLong();
  process->bytes_ += after - before;
  name_bytes_ += after - before;
}

template <typename Entry>
void Exporter::Learn(const FrameContext& at, const Entry& entry) {
  Target* target = Find(at);
  if (target == nullptr) return;
  ExportProcess& process = target->process;
  if (name_bytes_ > kMaxNameBytes) {
    ++process.entries_omitted_;
    return;
  }
  const size_t bytes = process.bytes_;
  const bool added = process.Add(entry);
  name_bytes_ += process.bytes_ - bytes;
  if (added && target->begun) Announce(target, entry);
}

void Exporter::OnAgent(const FrameContext& at, const v1::Agent& agent) {
  Learn(at, agent);
  // A process with agents was attached to; it has outputs even without any record.
  FindBegun(at, 0);
}

void Exporter::Announce(Target* target, const v1::Agent& agent) {
  ForSinks(target,
           [&](ExportSink* sink) { return sink->OnAgent(target->process, agent); });
}

void Exporter::OnQueue(const FrameContext& at, const v1::Queue& queue) {
  Learn(at, queue);
}

void Exporter::Announce(Target* target, const v1::Queue& queue) {
  ForSinks(target,
           [&](ExportSink* sink) { return sink->OnQueue(target->process, queue); });
}

void Exporter::OnKernel(const FrameContext& at, const v1::Kernel& kernel) {
  Learn(at, kernel);
}

void Exporter::Announce(Target* target, const v1::Kernel& kernel) {
  const ExportKernel* known = target->process.FindKernel(kernel.id());
  ForSinks(target,
           [&](ExportSink* sink) { return sink->OnKernel(target->process, *known); });
}

void Exporter::OnCodeObject(const FrameContext& at, const v1::CodeObject& object) {
  Learn(at, object);
}

void Exporter::Announce(Target* target, const v1::CodeObject& object) {
  ForSinks(target, [&](ExportSink* sink) {
    return sink->OnCodeObject(target->process, object);
  });
}

void Exporter::OnSessionPlan(const FrameContext& at, const v1::SessionPlan& plan) {
  Learn(at, plan);
  Target* target = Find(at);
  if (target != nullptr && plan.counters_size() > 0) StartJoin(target);
}

void Exporter::Announce(Target* target, const v1::SessionPlan& plan) {
  ForSinks(target, [&](ExportSink* sink) {
    return sink->OnSessionPlan(target->process, plan);
  });
}

void Exporter::OnThread(const FrameContext& at, const v1::Thread& thread) {
  Learn(at, thread);
}

void Exporter::OnApiFunction(const FrameContext& at, const v1::ApiFunction& function) {
  Learn(at, function);
  Target* target = Find(at);
  if (target != nullptr && target->begun) {
    target->links.ExpectCalls(function.domain() != v1::API_DOMAIN_MARKER);
  }
}

void Exporter::Announce(Target* target, const v1::ApiFunction& function) {
  ForSinks(target, [&](ExportSink* sink) {
    return sink->OnApiFunction(target->process, function);
  });
}

void Exporter::OnWindow(const FrameContext& at, const v1::WindowEvent& event) {
  Target* target = Find(at);
  if (target == nullptr) return;
  // The last one is the verdict.
  v1::WindowEvent& window = target->process.window_.emplace(event);
  if (window.detail().size() > kMostDetail)
    window.mutable_detail()->resize(kMostDetail);
}

void Exporter::OnAccount(const FrameContext& at, const v1::LossAccount& account) {
  Target* target = Find(at);
  if (target == nullptr) return;
  v1::LossAccount& kept = target->process.account_.emplace(account);
  if (kept.not_believable().size() > kMostDetail) {
    kept.mutable_not_believable()->resize(kMostDetail);
  }
  if (kept.unseen_work().size() > kMostDetail) {
    kept.mutable_unseen_work()->resize(kMostDetail);
  }
}

void Exporter::OnProcessEnd(const FrameContext& at, const v1::ProcessEnd& end) {
  Target* target = Find(at);
  if (target == nullptr) return;
  target->process.end_ = end;
  EndTarget(target);
  targets_.erase(at.stream);
  ended_.insert(at.stream);
}

void Exporter::EndTarget(Target* target) {
  FinishView(target);
  if (target->join != nullptr) {
    target->join->Finish();
    unmatched_ += target->join->unmatched();
    --joins_;
  }
  if (target->ranges != nullptr) --views_;
  ForSinks(target, [&](ExportSink* sink) { return sink->EndProcess(target->process); });
  entries_omitted_ += target->process.entries_omitted();
  if (const auto& account = target->process.account_; account.has_value()) {
    sampled_out_ += account->sampled_out();
  }
  name_bytes_ -= target->process.bytes_;
  CloseOutputs(target);
}

void Exporter::CloseOutputs(Target* target) {
  for (Output* output : target->outputs) {
    --output->open;
    const bool wanted =
        output->shared && (output->open > 0 || !options_.complete_with_process);
    if (wanted || !status_.ok()) continue;
    status_ = output->sink->Finish();
    if (!status_.ok()) continue;
    for (std::string& file : output->sink->Files()) {
      if (completed_.size() < kMostNamedFiles) completed_.push_back(std::move(file));
    }
    AddOmissions(*output->sink);
    output->sink = nullptr;
  }
}

void Exporter::AddOmissions(const ExportSink& sink) {
  for (std::string& omission : sink.Omissions()) {
    if (sink_omissions_.size() < kMostOmissions) {
      sink_omissions_.push_back(std::move(omission));
    }
  }
}

std::vector<Exporter::Target*> Exporter::TargetsInOrder() {
  std::vector<Target*> targets;
  for (auto& [stream, target] : targets_) targets.push_back(target.get());
  std::sort(targets.begin(), targets.end(), [](const Target* a, const Target* b) {
    return a->process.number() < b->process.number();
  });
  return targets;
}

void Exporter::EndAll() {
  for (Target* target : TargetsInOrder()) EndTarget(target);
  targets_.clear();
}

void Exporter::Flush() {
  for (auto& [stream, target] : targets_) {
    target->links.Release(/*all=*/false);
    WriteLinked(target.get());
  }
  for (auto& [key, output] : outputs_) {
    if (output.sink != nullptr && status_.ok()) status_ = output.sink->Flush();
  }
}

void Exporter::WritePartial() {
  std::map<const Output*, std::vector<const ExportProcess*>> open;
  for (Target* target : TargetsInOrder()) {
    FinishView(target);
    if (target->join != nullptr) target->join->Finish();
    for (const Output* output : target->outputs) {
      open[output].push_back(&target->process);
    }
  }
  for (auto& [key, output] : outputs_) {
    if (output.sink != nullptr) output.sink->WritePartial(open[&output]);
  }
}

absl::Status Exporter::Finish() {
  if (!status_.ok()) {
    WritePartial();
    return status_;
  }
  EndAll();
  for (auto& [key, output] : outputs_) {
    if (output.sink == nullptr || !status_.ok()) continue;
    status_ = output.sink->Finish();
    AddOmissions(*output.sink);
  }
  if (!status_.ok()) WritePartial();
  return status_;
}

std::vector<std::string> Exporter::Files() const {
  std::vector<std::string> files = completed_;
  for (const auto& [key, output] : outputs_) {
    if (output.sink == nullptr) continue;
    for (std::string& file : output.sink->Files()) files.push_back(std::move(file));
  }
  return files;
}

std::vector<std::string> Exporter::Omissions() const {
  std::vector<std::string> omissions = sink_omissions_;
  auto add = [&](uint64_t count, const char* what) {
    if (count > 0) omissions.push_back(absl::StrCat(HumanCount(count), what));
  };
  add(entries_omitted_, " names had no room in memory");
  add(late_records_, " records came after the end of their process");
  add(ownerless_records_, " records belong to no process");
  add(crowded_records_, " records of more processes than fit into memory");
  add(unmatched_, " counted dispatches have no record of their own");
  return omissions;
}

// The part of the exporter that passes records on to the sinks.

namespace {

// Number of dispatches that all joins together keep in a generation, about 120 bytes
// each. Values may come a quarter of a second before or after; counted kernels run one
// at a time. Chosen to fit a table of 65,536 slots.
constexpr size_t kJoinedDispatches = 56'000;
// Number of values that all joins together keep until their dispatch comes, about 100
// bytes each: the values of 17,000 dispatches with 60 counters each.
constexpr size_t kJoinedValues = size_t{1} << 20;
// Maximum numbers of operations that wait for their calls, about 150 bytes each, and of
// calls that are remembered, about 40 bytes each, of all processes together.
constexpr size_t kLinkedOperations = size_t{1} << 16;
constexpr size_t kLinkedCalls = size_t{1} << 18;
constexpr size_t kLeastWindow = 4096;

bool HasMarkers(absl::Span<const ApiCallRecord> records) {
  return std::any_of(records.begin(), records.end(), [](const ApiCallRecord& call) {
    return call.domain == v1::API_DOMAIN_MARKER;
  });
}

}  // namespace

void Exporter::StartJoin(Target* target) {
  if (target->join != nullptr) return;
  target->join = std::make_unique<CounterJoin>(
      [this, target](const auto& counted) {
        ForSinks(target, [&](ExportSink* sink) {
          return sink->OnCountedDispatch(target->process, counted);
        });
      },
      [target](uint64_t id) { return target->links.OfOperation(id); });
  ++joins_;
  const size_t dispatches = std::max(kLeastWindow, kJoinedDispatches / joins_);
  const size_t values = std::max(kLeastWindow, kJoinedValues / joins_);
  for (auto& [stream, other] : targets_) {
    if (other->join != nullptr) other->join->set_window(dispatches, values);
  }
}

void Exporter::StartView(Target* target) {
  for (const auto& [key, name] : target->process.functions()) {
    target->links.ExpectCalls(key.first != v1::API_DOMAIN_MARKER);
  }
  if (std::none_of(options_.formats.begin(), options_.formats.end(),
                   [](const ExportFormat* format) { return format->as_rocprofv3; })) {
    return;
  }
  target->ranges = std::make_unique<MarkerRanges>();
  ++views_;
}

absl::Span<const rocattach_dispatch> Exporter::WithOwnIds(const LaunchLinks& links) {
  if (links.calls_marked()) return numbered_;
  own_dispatches_ = numbered_;
  for (rocattach_dispatch& dispatch : own_dispatches_) {
    dispatch.correlation_id = links.OfOperation(dispatch.correlation_id);
  }
  return own_dispatches_;
}

absl::Span<const rocattach_copy> Exporter::WithOwnIds(
    const LaunchLinks& links, absl::Span<const rocattach_copy> records) {
  if (links.calls_marked()) return records;
  own_copies_.assign(records.begin(), records.end());
  for (rocattach_copy& copy : own_copies_) {
    copy.correlation_id = links.OfOperation(copy.correlation_id);
  }
  return own_copies_;
}

void Exporter::WriteLinked(Target* target) {
  std::vector<LinkedDispatch>* dispatches = target->links.dispatches();
  std::vector<rocattach_copy>* copies = target->links.copies();
  if (!dispatches->empty()) {
    numbered_.clear();
    for (const LinkedDispatch& dispatch : *dispatches) {
      numbered_.push_back(dispatch.record);
      numbered_.back().correlation_id = dispatch.correlation_id;
    }
    ForSinks(target, Sinks::kAsRocprofv3, [&](ExportSink* sink) {
      return sink->OnDispatches(target->process, numbered_);
    });
    if (target->join != nullptr) {
      for (const LinkedDispatch& dispatch : *dispatches) target->join->Add(dispatch);
    }
    dispatches->clear();
  }
  if (!copies->empty()) {
    ForSinks(target, Sinks::kAsRocprofv3, [&](ExportSink* sink) {
      return sink->OnCopies(target->process, *copies);
    });
    copies->clear();
  }
}

void Exporter::FinishView(Target* target) {
  if (target->ranges == nullptr) return;
  target->links.Release(/*all=*/true);
  WriteLinked(target);
  calls_.clear();
  target->ranges->Finish(&calls_);
  if (!calls_.empty()) {
    for (ApiCallRecord& call : calls_) {
      call.correlation_id = target->links.OfCall(call.correlation_id);
      call.ancestor_id = target->links.OfCall(call.ancestor_id);
    }
    ForSinks(target, Sinks::kAsRocprofv3, [&](ExportSink* sink) {
      return sink->OnApiCalls(target->process, calls_);
    });
  }
}

void Exporter::OnDispatches(const FrameContext& at,
                            absl::Span<const rocattach_dispatch> records) {
  Target* target = FindBegun(at, records.size());
  if (target == nullptr) return;
  numbered_.assign(records.begin(), records.end());
  for (rocattach_dispatch& dispatch : numbered_) {
    // The collector assigns dispatch ids only while a session counts.
    dispatch.dispatch_id = ++target->dispatches;
  }
  LaunchLinks& links = target->links;
  links.BeforeOperations();
  ForSinks(target, Sinks::kAsRecorded, [&](ExportSink* sink) {
    return sink->OnDispatches(target->process, WithOwnIds(links));
  });
  if (target->ranges != nullptr) {
    links.set_window(std::max(kLeastWindow, kLinkedOperations / views_),
                     std::max(kLeastWindow, kLinkedCalls / views_));
    links.Add(numbered_);
    WriteLinked(target);
  } else if (target->join != nullptr) {
    for (const rocattach_dispatch& dispatch : numbered_) {
      target->join->Add({dispatch, links.OfOperation(dispatch.correlation_id)});
    }
  }
}

void Exporter::OnCopies(const FrameContext& at,
                        absl::Span<const rocattach_copy> records) {
  Target* target = FindBegun(at, records.size());
  if (target == nullptr) return;
  target->links.BeforeOperations();
  ForSinks(target, Sinks::kAsRecorded, [&](ExportSink* sink) {
    return sink->OnCopies(target->process, WithOwnIds(target->links, records));
  });
  if (target->ranges == nullptr) return;
  target->links.Add(records);
  WriteLinked(target);
}

void Exporter::OnCounters(const FrameContext& at,
                          absl::Span<const CounterRecord> records) {
  Target* target = FindBegun(at, records.size());
  if (target == nullptr) return;
  target->links.BeforeOperations();
  StartJoin(target);
  target->join->AddValues(records);
}

void Exporter::OnSamples(const FrameContext& at,
                         absl::Span<const CounterRecord> records) {
  Target* target = FindBegun(at, records.size());
  if (target == nullptr) return;
  ForSinks(target,
           [&](ExportSink* sink) { return sink->OnSamples(target->process, records); });
}

void Exporter::OnApiCalls(const FrameContext& at,
                          absl::Span<const ApiCallRecord> records) {
  Target* target = FindBegun(at, records.size());
  if (target == nullptr) return;
  LaunchLinks& links = target->links;
  links.BeforeCalls();
  const auto with_own_ids = [&]() -> absl::Span<const ApiCallRecord> {
    if (!links.calls_marked()) return calls_;
    for (ApiCallRecord& call : calls_) {
      call.correlation_id = links.OfCall(call.correlation_id);
      call.ancestor_id = links.OfCall(call.ancestor_id);
    }
    return calls_;
  };
  absl::Span<const ApiCallRecord> own = records;
  if (links.calls_marked()) {
    calls_.assign(records.begin(), records.end());
    own = with_own_ids();
  }
  ForSinks(target, Sinks::kAsRecorded,
           [&](ExportSink* sink) { return sink->OnApiCalls(target->process, own); });
  if (target->ranges == nullptr) return;
  links.Add(records);
  if (HasMarkers(records)) {
    calls_.clear();
    target->ranges->Add(target->process, records, &calls_);
    own = with_own_ids();
  }
  if (!own.empty()) {
    ForSinks(target, Sinks::kAsRocprofv3,
             [&](ExportSink* sink) { return sink->OnApiCalls(target->process, own); });
  }
  WriteLinked(target);
}

void Exporter::OnMemory(const FrameContext& at,
                        absl::Span<const MemoryRecord> records) {
  Target* target = FindBegun(at, records.size());
  if (target == nullptr) return;
  target->links.BeforeCalls();
  if (target->links.calls_marked()) {
    memory_.assign(records.begin(), records.end());
    for (MemoryRecord& record : memory_) {
      record.correlation_id = target->links.OfCall(record.correlation_id);
    }
    records = memory_;
  }
  ForSinks(target,
           [&](ExportSink* sink) { return sink->OnMemory(target->process, records); });
}

}  // namespace rocattach
