// The records of streams on their way to sinks.
#include <algorithm>

#include "userspace/export/exporter.h"

namespace rocattach {
namespace {

// Dispatches that all joins together keep in a generation, about 120 bytes each. Values
// may come a quarter of a second before or after; counted kernels run one at a time.
// So many just fit a table of 65,536 slots.
constexpr size_t kJoinedDispatches = 56'000;
// Values that all joins together keep while their dispatch has not come, about 100
// bytes each: those of 17,000 dispatches with 60 counters each.
constexpr size_t kJoinedValues = size_t{1} << 20;
// Operations that wait for their calls, about 150 bytes each, and calls that are
// remembered, about 40 bytes each, of all processes together.
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
    // The collector's numbers are there only while a session counts.
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
