#include "userspace/record/sessions/session_records.h"

#include <string.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "userspace/record/drain/dictionary.h"
#include "userspace/record/drain/record_slot.h"
#include "userspace/record/drain/value_slots.h"
#include "userspace/stream/utf8.h"

namespace rocattach {
namespace {

constexpr uint16_t kWantedBySessions =
    ROCATTACH_DISPATCH_SELECTED | ROCATTACH_DISPATCH_FOR_COUNTERS |
    ROCATTACH_DISPATCH_SELECTED_UNDECIDED | ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED;

constexpr uint16_t kMostTextSlots =
    (ROCATTACH_API_MAX_TEXT_BYTES + ROCATTACH_TEXT_SLOT_BYTES - 1) /
    ROCATTACH_TEXT_SLOT_BYTES;

// Cleans a text that has a line for each argument.
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

// Decides what the target could not: for a kernel whose name the service had not seen,
// or a list longer than the plan's table.
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

bool SessionRecords::ConsumeDispatch(uint32_t ring, rocattach_dispatch* record) {
  EndValues(ring);
  const uint16_t flags = record->flags;
  // Copied before it is changed: the processor would have to wait for the change.
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
    // Its values never arrived: the collector counts that.
    UseEventsOf(active);
    AddEvent({*events_of_, *record, 0, {}}, for_timestamps, for_counters);
  }
  return wanted;
}

bool SessionRecords::ConsumeCopy(rocattach_copy* record) {
  const uint16_t flags = record->flags;
  record->flags &= kStreamFlags;
  if ((flags & ROCATTACH_COPY_SELECTED) == 0) return true;
  const std::shared_ptr<ActivePlan> active =
      plans_->ByTag(ROCATTACH_DISPATCH_PLAN_TAG(flags));
  if (active != nullptr) active->sink->OnCopies(id_, {record, 1});
  return true;
}

void SessionRecords::ConsumeSample(uint32_t ring, const RecordSlot& slot) {
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

bool SessionRecords::ConsumeApiCall(uint32_t ring, const RecordSlot& slot) {
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

bool SessionRecords::ConsumeMemory(uint32_t ring, const rocattach_memory& memory) {
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

void SessionRecords::ConsumeText(uint32_t ring, const RecordSlot& slot) {
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
    output_set_->KeepError(writer->AppendOperations<CounterKind>(
        output_.stream, operations_, absl::MakeConstSpan(values_).first(values_used_)));
    operations_.clear();
    values_used_ = 0;
  }
  if (!counter_batch_.empty()) {
    output_set_->KeepError(writer->Append<CounterKind>(output_.stream, counter_batch_));
    counter_batch_.clear();
  }
  if (!sample_batch_.empty()) {
    output_set_->KeepError(writer->Append<SampleKind>(output_.stream, sample_batch_));
    sample_batch_.clear();
  }
  if (!api_batch_.empty()) {
    output_set_->KeepError(writer->Append<ApiCallKind>(output_.stream, api_batch_));
    api_batch_.clear();
  }
  if (!memory_batch_.empty()) {
    output_set_->KeepError(writer->Append<MemoryKind>(output_.stream, memory_batch_));
    memory_batch_.clear();
  }
}

// SessionRecords: values of dispatches and samples.

// Appends one record for each value; `record` has what they share. Instances are in the
// SDK's order, which is another one, and may be missing for some values.
void SessionRecords::AppendRecords(CounterRecord record, const Pending& pending,
                                   std::vector<CounterRecord>* batch) {
  std::map<uint64_t, std::shared_ptr<std::vector<CounterInstance>>> each;
  for (const rocattach_instance_value& value : pending.instances) {
    auto& of_counter = each[value.instance >> ROCATTACH_INSTANCE_COUNTER_SHIFT];
    if (of_counter == nullptr) {
      of_counter = std::make_shared<std::vector<CounterInstance>>();
    }
    of_counter->push_back({ROCATTACH_INSTANCE_POSITION(value.instance), value.value});
  }
  for (const rocattach_counter_value& value : pending.values) {
    record.counter = value.counter;
    record.instances = value.instances;
    record.sum = value.sum;
    record.minimum = value.minimum;
    record.maximum = value.maximum;
    const auto found = each.find(value.counter);
    record.each = found == each.end() ? nullptr : found->second;
    batch->push_back(record);
  }
}

void SessionRecords::UseEventsOf(const std::shared_ptr<ActivePlan>& active) {
  if (active == events_of_) return;
  std::shared_ptr<ActivePlan> next = active;  // a program's callbacks may end the plan
  PassEvents();
  events_of_ = std::move(next);
}

// Batched, and skipped for a sink that reads none: most sessions are only recorded.
void SessionRecords::AddEvent(const CountedDispatch& counted, bool for_timestamps,
                              bool for_counters) {
  if (!events_of_->sink->ReadsDispatches()) {
    unread_for_timestamps_ += for_timestamps ? 1 : 0;
    unread_for_counters_ += for_counters ? 1 : 0;
    return;
  }
  event_readings_.push_back(readings_.size());
  readings_.insert(readings_.end(), counted.values.begin(), counted.values.end());
  DispatchEvent& event = events_.emplace_back();
  event.dispatch = counted.dispatch;
  event.for_timestamps = for_timestamps;
  event.for_counters = for_counters;
  event.pass = counted.pass;
}

void SessionRecords::PassEvents() {
  if ((unread_for_timestamps_ | unread_for_counters_) != 0) {
    events_of_->sink->CountDispatches(std::exchange(unread_for_timestamps_, 0),
                                      std::exchange(unread_for_counters_, 0));
  }
  if (events_.empty()) return;
  // The sink may run a program's callbacks: nothing of ours may be in use meanwhile.
  const std::shared_ptr<ActivePlan> active = events_of_;
  std::vector<DispatchEvent> events = std::move(events_);
  std::vector<rocattach_counter_value> readings = std::move(readings_);
  event_readings_.push_back(readings.size());
  for (size_t i = 0; i < events.size(); ++i) {
    events[i].readings = absl::MakeConstSpan(readings).subspan(
        event_readings_[i], event_readings_[i + 1] - event_readings_[i]);
  }
  events_.clear();
  readings_.clear();
  event_readings_.clear();
  active->sink->OnDispatches(id_, events);
  if (!events_.empty()) return;
  events.clear();
  readings.clear();
  events_ = std::move(events);  // keeps their capacity
  readings_ = std::move(readings);
}

bool SessionRecords::Continues(const Pending& pending,
                               const rocattach_values& values) const {
  return HeadContinues(pending, values) &&
         AreValid(values.value, values.count,
                  pending.active->plan->counter_names.size());
}

bool SessionRecords::HeadContinues(const Pending& pending,
                                   const rocattach_values& values) const {
  if (pending.of == Pending::Of::kNothing || pending.active == nullptr) return false;
  const bool sample = pending.of == Pending::Of::kSample;
  const uint64_t operation =
      sample ? pending.sample.sample_id : pending.dispatch.correlation_id;
  const uint32_t agent = sample ? pending.sample.agent_id : pending.dispatch.agent_id;
  if (values.correlation_id != operation || values.agent_id != agent ||
      values.plan_generation != pending.active->generation ||
      values.slot != pending.next || values.slots <= values.slot || values.count == 0 ||
      values.count > ROCATTACH_VALUES_PER_SLOT ||
      values.of != (sample ? ROCATTACH_RECORD_SAMPLE : ROCATTACH_RECORD_DISPATCH) ||
      values.instance_slots >
          (pending.active->instances ? ROCATTACH_MAX_INSTANCE_SLOTS : 0)) {
    return false;
  }
  if (values.slot > 0) {
    // The first slot's fields were checked, and the GPU is the same.
    if (values.slots != pending.slots || values.pass != pending.pass ||
        values.instance_slots != pending.instance_slots) {
      return false;
    }
  } else {
    const PlanArchitecture* architecture = pending.active->plan->Architecture(agent);
    if (architecture == nullptr) return false;
    const PassAssignment& passes =
        sample ? architecture->sampler : architecture->dispatch;
    if (values.pass >= passes.passes.size() ||
        values.slots > passes.passes[values.pass].counters.size()) {
      return false;
    }
  }
  return true;
}

rocattach_counter_value* SessionRecords::RoomFor(size_t values) {
  if (values_.size() - values_used_ < values) {
    values_.resize(2 * values_.size() + values);
  }
  return values_.data() + values_used_;
}

bool SessionRecords::IsPending(uint32_t ring) const {
  return (ring < pending_.size() && pending_[ring].of != Pending::Of::kNothing) ||
         (ring < pending_calls_.size() && pending_calls_[ring].active != nullptr);
}

// The heads of the slots are compared with one that was checked before; the values are
// copied to where the encoder reads them. The sink gets its events, or their count,
// later: the plan stays in force until this returns.
size_t SessionRecords::ConsumeCounted(uint32_t ring, rocattach_dispatch* record,
                                      absl::Span<const RecordSlot> slots) {
  constexpr uint16_t kWanted =
      ROCATTACH_DISPATCH_COUNTED | ROCATTACH_DISPATCH_FOR_COUNTERS;
  constexpr uint16_t kUndecided =
      ROCATTACH_DISPATCH_SELECTED_UNDECIDED | ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED;
  const uint16_t flags = record->flags;
  if ((flags & (kWanted | kUndecided)) != kWanted || slots.empty() || IsPending(ring)) {
    return 0;
  }
  const ValueSlotHead head(slots[0]);
  if (head.shape != good_head_.shape || head.generation != good_head_.generation ||
      head.rest != good_head_.rest || head.operation != record->correlation_id ||
      head.agent_id() != record->agent_id || head.slots() > slots.size()) {
    return 0;
  }
  const std::shared_ptr<ActivePlan>& active =
      plans_->ByTag(ROCATTACH_DISPATCH_PLAN_TAG(flags));
  if (active == nullptr || active != events_of_ ||
      active->generation != head.generation) {
    return 0;
  }
  rocattach_counter_value* const room =
      RoomFor(head.slots() * ROCATTACH_VALUES_PER_SLOT);
  const size_t used = CopyValues(head, slots.first(head.slots()),
                                 active->plan->counter_names.size(), room);
  if (used == 0) return 0;
  record->flags &= kStreamFlags;
  const CountedDispatch counted = {*active, *record, head.pass(), {room, used}};
  AddEvent(counted, (flags & ROCATTACH_DISPATCH_SELECTED) != 0, true);
  AddCounted(counted);
  return head.slots();
}

void SessionRecords::ConsumeValues(uint32_t ring, const RecordSlot& slot) {
  const auto values = CopyOf<rocattach_values>(slot);
  Pending& pending = PendingOf(ring);
  if (!Continues(pending, values)) {
    // Counted once for the operation, however many slots follow.
    EndValues(ring);
    return;
  }
  if (values.slot == 0 && values.of == ROCATTACH_RECORD_DISPATCH &&
      values.instance_slots == 0) {
    good_head_ = ValueSlotHead(slot);
  }
  pending.slots = values.slots;
  pending.instance_slots = values.instance_slots;
  pending.pass = values.pass;
  ++pending.next;
  pending.values.insert(pending.values.end(), values.value,
                        values.value + values.count);
  if (pending.next == pending.slots && pending.instance_slots == 0) Complete(&pending);
}

bool SessionRecords::ContinuesInstances(const Pending& pending,
                                        const rocattach_instances& instances) const {
  if (pending.of == Pending::Of::kNothing) return false;
  const uint64_t operation = pending.of == Pending::Of::kSample
                                 ? pending.sample.sample_id
                                 : pending.dispatch.correlation_id;
  if (pending.next == 0 || pending.next != pending.slots ||
      instances.slot != pending.next_instances ||
      instances.correlation_id != operation || instances.count == 0 ||
      instances.count > ROCATTACH_INSTANCES_PER_SLOT) {
    return false;
  }
  return true;
}

// Instances of counters without a value are left out, in AppendRecords().
void SessionRecords::ConsumeInstances(uint32_t ring, const RecordSlot& slot) {
  const auto instances = CopyOf<rocattach_instances>(slot);
  Pending& pending = PendingOf(ring);
  // Only instances that are split over two reads of a ring wait here, so they are few.
  if (!ContinuesInstances(pending, instances) ||
      pending_instances_ + instances.count > kMostPendingInstances) {
    EndValues(ring);
    return;
  }
  pending_instances_ += instances.count;
  pending.instances.insert(pending.instances.end(), instances.value,
                           instances.value + instances.count);
  if (++pending.next_instances == pending.instance_slots) Complete(&pending);
}

void SessionRecords::EndValues(uint32_t ring) {
  if (ring < pending_calls_.size() && pending_calls_[ring].active != nullptr) {
    CompleteCall(&pending_calls_[ring]);
  }
  if (ring >= pending_.size()) return;
  CountInvalid(pending_[ring]);
  pending_[ring].of = Pending::Of::kNothing;
  DropInstances(&pending_[ring]);
}

void SessionRecords::DropInstances(Pending* pending) {
  pending_instances_ -= pending->instances.size();
  pending->instances.clear();
  if (pending->instances.capacity() > kMostKeptInstances) pending->instances = {};
}

void SessionRecords::CountInvalid(const Pending& pending) {
  counts_.counted_invalid += pending.of == Pending::Of::kDispatch;
  counts_.samples_invalid += pending.of == Pending::Of::kSample;
}

void SessionRecords::Complete(Pending* pending) {
  if (pending->of == Pending::Of::kDispatch) {
    CompleteDispatch(*pending);
  } else {
    CompleteSample(*pending);
  }
  pending->of = Pending::Of::kNothing;
  DropInstances(pending);
}

CounterRecord SessionRecords::RecordOf(const Pending& pending) {
  CounterRecord record;
  record.session = pending.active->session;
  record.plan = pending.active->plan_id;
  record.pass = pending.pass;
  return record;
}

void SessionRecords::CompleteDispatch(const Pending& pending) {
  const CountedDispatch counted = {*pending.active, pending.dispatch, pending.pass,
                                   pending.values};
  if (pending.for_timestamps || pending.for_counters) {
    UseEventsOf(pending.active);
    AddEvent(counted, pending.for_timestamps, pending.for_counters);
  }
  if (!pending.for_counters) {
    ++counts_.counted_filtered;
    return;
  }
  if (pending.instances.empty()) return AddCounted(counted);
  CountValues(counted);
  CounterRecord record = RecordOf(pending);
  record.operation = pending.dispatch.correlation_id;
  record.kernel_id = pending.dispatch.kernel_id;
  record.agent_id = pending.dispatch.agent_id;
  AppendRecords(record, pending, &counter_batch_);
}

void SessionRecords::CountValues(const CountedDispatch& counted) {
  ++counts_.counted;
  if (meter_ == nullptr) return;
  meter_->AddCounters(counted.dispatch.agent_id, counted.active.plan->counter_names,
                      counted.values);
}

void SessionRecords::AddCounted(const CountedDispatch& counted) {
  CountValues(counted);
  CounterOperation& operation = operations_.emplace_back();
  operation.session = counted.active.session;
  operation.operation = counted.dispatch.correlation_id;
  operation.plan = counted.active.plan_id;
  operation.kernel_id = counted.dispatch.kernel_id;
  operation.pass = counted.pass;
  operation.agent_id = counted.dispatch.agent_id;
  operation.values = static_cast<uint32_t>(counted.values.size());
  // ConsumeCounted() has put its values there already.
  if (counted.values.data() != values_.data() + values_used_) {
    std::copy(counted.values.begin(), counted.values.end(),
              RoomFor(counted.values.size()));
  }
  values_used_ += counted.values.size();
}

void SessionRecords::CompleteSample(const Pending& pending) {
  ++counts_.samples;
  CounterRecord record = RecordOf(pending);
  record.operation = pending.sample.sample_id;
  record.agent_id = pending.sample.agent_id;
  record.begin_ns = pending.sample.begin_ns;
  record.end_ns = pending.sample.end_ns;
  AppendRecords(record, pending, &sample_batch_);
  SampleEvent event;
  event.agent_id = pending.sample.agent_id;
  event.pass = pending.pass;
  event.begin_ns = pending.sample.begin_ns;
  event.end_ns = pending.sample.end_ns;
  event.readings = pending.values;
  if (meter_ != nullptr && event.end_ns > event.begin_ns) {
    meter_->AddSample(event.agent_id, pending.active->plan->counter_names,
                      event.readings, event.end_ns - event.begin_ns);
  }
  pending.active->sink->OnSamples(id_, {&event, 1});
}

}  // namespace rocattach
