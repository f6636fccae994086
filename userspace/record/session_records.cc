#include "userspace/record/session_records.h"

#include <string.h>

#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "userspace/record/dictionary.h"
#include "userspace/record/slot_copy.h"
#include "userspace/stream/utf8.h"

namespace rocattach {
namespace {

constexpr uint16_t kWantedBySessions =
    ROCATTACH_DISPATCH_SELECTED | ROCATTACH_DISPATCH_FOR_COUNTERS |
    ROCATTACH_DISPATCH_SELECTED_UNDECIDED | ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED;

constexpr uint16_t kMostTextSlots =
    (ROCATTACH_API_MAX_TEXT_BYTES + ROCATTACH_TEXT_SLOT_BYTES - 1) /
    ROCATTACH_TEXT_SLOT_BYTES;

// A line for each argument.
std::string CleanLines(absl::string_view text) {
  return absl::StrJoin(
      absl::StrSplit(text, '\n'), "\n",
      [](std::string* out, absl::string_view line) { out->append(CleanText(line)); });
}

}  // namespace

SessionRecords::Pending& SessionRecords::NewPending(uint32_t ring) {
  pending_.resize(ring + 1);
  return pending_[ring];
}

// Decides what the target could not: a kernel with a name that we had not seen, a list
// longer than the table.
bool SessionRecords::Selects(ActivePlan* active, uint32_t selection,
                             const rocattach_dispatch& record) {
  const ExactSelection& exact = active->plan->selections[selection];
  if (!exact.SelectsBut(record.agent_id, record.dispatch_id, record.iteration)) {
    return false;
  }
  if (!exact.kernels.restricts()) return true;
  return kernels_->Contains(record.kernel_id) &&
         kernels_->Selects(active, selection, record.kernel_id);
}

bool SessionRecords::TakeDispatch(uint32_t ring, rocattach_dispatch* record) {
  EndValues(ring);
  const uint16_t flags = record->flags;
  // Copied before anything in it is changed: the processor would have to wait for that.
  if (flags & ROCATTACH_DISPATCH_COUNTED) PendingOf(ring).dispatch = *record;
  record->flags &= kStreamFlags;
  const bool baseline =
      (flags & ROCATTACH_DISPATCH_BASELINE) != 0 || (flags & kWantedBySessions) == 0;
  const std::shared_ptr<ActivePlan>& active =
      (flags & kWantedBySessions) != 0
          ? plans_->ByTag(ROCATTACH_DISPATCH_PLAN_TAG(flags))
          : plans_->none();
  bool for_timestamps = false, for_counters = false;
  if (active != nullptr) {
    // Undecided means yes, subject to the service's confirmation.
    for_timestamps =
        (flags & ROCATTACH_DISPATCH_SELECTED) != 0 &&
        ((flags & ROCATTACH_DISPATCH_SELECTED_UNDECIDED) == 0 ||
         Selects(active.get(), ROCATTACH_PLAN_SELECTION_DISPATCHES, *record));
    for_counters = (flags & ROCATTACH_DISPATCH_FOR_COUNTERS) != 0 &&
                   ((flags & ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED) == 0 ||
                    Selects(active.get(), ROCATTACH_PLAN_SELECTION_COUNTERS, *record));
  }
  const bool wanted = baseline || for_timestamps || for_counters;
  if (!wanted) ++counts_.filtered;
  if (flags & ROCATTACH_DISPATCH_COUNTED) {
    Pending& pending = PendingOf(ring);
    pending.of = Pending::Of::kDispatch;
    pending.dispatch.flags = record->flags;
    pending.for_timestamps = for_timestamps;
    pending.for_counters = for_counters;
    if (pending.active != active) pending.active = active;
    pending.slots = pending.next = 0;
    pending.instance_slots = pending.next_instances = 0;
    pending.values.clear();
    DropInstances(&pending);
    return wanted;
  }
  if (active != nullptr && (for_timestamps || for_counters)) {
    // Without values, which never arrived: the collector counts that.
    UseEventsOf(active);
    AddEvent({*events_of_, *record, 0, {}}, for_timestamps, for_counters);
  }
  return wanted;
}

bool SessionRecords::TakeCopy(rocattach_copy* record) {
  const uint16_t flags = record->flags;
  record->flags &= kStreamFlags;
  if ((flags & ROCATTACH_COPY_SELECTED) == 0) return true;
  const std::shared_ptr<ActivePlan> active =
      plans_->ByTag(ROCATTACH_DISPATCH_PLAN_TAG(flags));
  if (active != nullptr) active->sink->OnCopies(id_, {record, 1});
  return true;
}

void SessionRecords::TakeSample(uint32_t ring, const RecordSlot& slot) {
  EndValues(ring);
  Pending& pending = PendingOf(ring);
  pending.of = Pending::Of::kSample;
  pending.sample = CopyOf<rocattach_sample>(slot);
  pending.active = plans_->ByGeneration(pending.sample.plan_generation);
  pending.slots = pending.next = 0;
  pending.instance_slots = pending.next_instances = 0;
  pending.values.clear();
  DropInstances(&pending);
  if (pending.active == nullptr || pending.sample.slots == 0 ||
      pending.sample.end_ns < pending.sample.begin_ns) {
    EndValues(ring);
  }
}

bool SessionRecords::TakeApiCall(uint32_t ring, const RecordSlot& slot) {
  EndValues(ring);
  const auto call = CopyOf<rocattach_api_call>(slot);
  const std::shared_ptr<ActivePlan> active = plans_->ByTag(call.plan_tag);
  if (active == nullptr || call.domain >= ROCATTACH_PLAN_API_DOMAINS ||
      call.function >= ROCATTACH_PLAN_API_FUNCTIONS || call.end_ns < call.begin_ns ||
      call.text_slots > kMostTextSlots) {
    ++counts_.api_calls_invalid;
    return false;
  }
  PendingCall pending;
  pending.active = active;
  pending.slots = call.text_slots;
  ApiCallRecord& record = pending.record;
  record.session = active->session;
  record.correlation_id = call.correlation_id;
  record.ancestor_id = call.ancestor_id;
  record.begin_ns = call.begin_ns;
  record.end_ns = call.end_ns;
  record.tid = call.tid;
  record.domain = call.domain;
  record.function = call.function;
  if (call.flags & ROCATTACH_API_TEXT_CUT) record.flags |= kApiCallTextCut;
  if (call.flags & ROCATTACH_API_TEXT_ARGUMENTS) record.flags |= kApiCallArguments;
  if (pending.slots == 0) {
    record.text.assign(call.text, strnlen(call.text, sizeof(call.text)));
    CompleteCall(&pending);
    return true;
  }
  if (ring >= pending_calls_.size()) pending_calls_.resize(ring + 1);
  pending_calls_[ring] = std::move(pending);
  return true;
}

bool SessionRecords::TakeMemory(uint32_t ring, const rocattach_memory& memory) {
  EndValues(ring);
  const std::shared_ptr<ActivePlan> active = plans_->ByTag(memory.plan_tag);
  if (active == nullptr || memory.end_ns < memory.start_ns ||
      memory.operation > ROCATTACH_MEMORY_SCRATCH_RECLAIM) {
    ++counts_.memory_invalid;
    return false;
  }
  ++counts_.memory;
  MemoryRecord record;
  record.session = active->session;
  record.correlation_id = memory.correlation_id;
  record.begin_ns = memory.start_ns;
  record.end_ns = memory.end_ns;
  record.address = memory.address;
  record.bytes = memory.bytes;
  record.tid = memory.tid;
  record.queue_id = memory.queue_id;
  record.operation = memory.operation;
  record.agent_id = memory.agent_id;
  record.scratch_flags = memory.scratch_flags;
  memory_batch_.push_back(record);
  active->sink->OnMemory(id_, 1);
  return true;
}

void SessionRecords::TakeText(uint32_t ring, const RecordSlot& slot) {
  const auto text = CopyOf<rocattach_text>(slot);
  if (ring >= pending_calls_.size() || pending_calls_[ring].active == nullptr) return;
  PendingCall& pending = pending_calls_[ring];
  if (text.slot != pending.next || text.bytes > sizeof(text.text) ||
      pending_text_bytes_ + text.bytes > kMostPendingTextBytes) {
    return EndValues(ring);
  }
  pending_text_bytes_ += text.bytes;
  pending.record.text.append(text.text, text.bytes);
  if (++pending.next == pending.slots) CompleteCall(&pending);
}

void SessionRecords::CompleteCall(PendingCall* pending) {
  ++counts_.api_calls;
  ApiCallRecord& record = pending->record;
  if (pending->slots > 0) pending_text_bytes_ -= record.text.size();
  // Not all of its parts arrived in order.
  if (pending->next != pending->slots) record.flags |= kApiCallTextCut;
  record.text = (record.flags & kApiCallArguments) != 0 ? CleanLines(record.text)
                                                        : CleanText(record.text);
  ApiEvent event;
  event.domain = TraceDomainOf(record.domain);
  event.function = record.function;
  event.tid = record.tid;
  event.correlation_id = record.correlation_id;
  event.begin_ns = record.begin_ns;
  event.end_ns = record.end_ns;
  if ((record.flags & kApiCallArguments) == 0) event.text = record.text;
  pending->active->sink->OnApiCalls(id_, {&event, 1});
  pending->active = nullptr;
  api_batch_.push_back(std::move(record));
}

void SessionRecords::End() {
  for (const Pending& pending : pending_) CountInvalid(pending);
  pending_.clear();
  for (PendingCall& call : pending_calls_) {
    if (call.active != nullptr) CompleteCall(&call);
  }
  pending_calls_.clear();
  Write();
}

void SessionRecords::Write() {
  PassEvents();
  StreamWriter* writer = output_.writer;
  if (!operations_.empty()) {
    output_set_->Note(writer->AppendOperations<CounterKind>(
        output_.stream, operations_, absl::MakeConstSpan(values_).first(values_used_)));
    operations_.clear();
    values_used_ = 0;
  }
  if (!counter_batch_.empty()) {
    output_set_->Note(writer->Append<CounterKind>(output_.stream, counter_batch_));
    counter_batch_.clear();
  }
  if (!sample_batch_.empty()) {
    output_set_->Note(writer->Append<SampleKind>(output_.stream, sample_batch_));
    sample_batch_.clear();
  }
  if (!api_batch_.empty()) {
    output_set_->Note(writer->Append<ApiCallKind>(output_.stream, api_batch_));
    api_batch_.clear();
  }
  if (!memory_batch_.empty()) {
    output_set_->Note(writer->Append<MemoryKind>(output_.stream, memory_batch_));
    memory_batch_.clear();
  }
}

}  // namespace rocattach
