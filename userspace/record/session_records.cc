#include "userspace/record/session_records.h"

#include <string.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "userspace/record/dictionary.h"
#include "userspace/stream/utf8.h"

namespace rocattach {
namespace {

// Flags of a dispatch or copy in the stream; the rest are internal to target and
// service.
constexpr uint16_t kStreamFlags = ROCATTACH_DISPATCH_UNTIMED |
                                  ROCATTACH_DISPATCH_APP_SIGNAL |
                                  ROCATTACH_DISPATCH_UNFINISHED;
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

template <typename T>
T CopyOf(const RecordSlot& slot) {
  T record;
  static_assert(sizeof(record) == sizeof(slot.bytes));
  memcpy(&record, slot.bytes, sizeof(record));
  return record;
}

}  // namespace

// One record for each reading; `record` has what they share. Instances are in the order
// of the SDK, which is another one, and need not be there for all readings.
void SessionRecords::AppendReadings(CounterRecord record, const Pending& pending,
                                    std::vector<CounterRecord>* batch) {
  std::map<uint64_t, std::shared_ptr<std::vector<CounterInstance>>> each;
  for (const rocattach_instance_value& value : pending.instances) {
    auto& of_counter = each[value.instance >> ROCATTACH_INSTANCE_COUNTER_SHIFT];
    if (of_counter == nullptr) {
      of_counter = std::make_shared<std::vector<CounterInstance>>();
    }
    of_counter->push_back({ROCATTACH_INSTANCE_POSITION(value.instance), value.value});
  }
  for (const CounterReading& reading : pending.readings) {
    record.counter = reading.counter;
    record.instances = reading.instances;
    record.sum = reading.sum;
    record.minimum = reading.minimum;
    record.maximum = reading.maximum;
    const auto found = each.find(reading.counter);
    record.each = found == each.end() ? nullptr : found->second;
    batch->push_back(record);
  }
}

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
  record->flags &= kStreamFlags;
  const bool baseline =
      (flags & ROCATTACH_DISPATCH_BASELINE) != 0 || (flags & kWantedBySessions) == 0;
  std::shared_ptr<ActivePlan> active;
  if ((flags & kWantedBySessions) != 0) {
    active = plans_->ByTag(ROCATTACH_DISPATCH_PLAN_TAG(flags));
  }
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
    pending.dispatch = *record;
    pending.for_timestamps = for_timestamps;
    pending.for_counters = for_counters;
    pending.active = std::move(active);
    pending.slots = pending.next = 0;
    pending.instance_slots = pending.next_instances = 0;
    pending.readings.clear();
    pending.instances.clear();
    return wanted;
  }
  if (active != nullptr && (for_timestamps || for_counters)) {
    // Without values if they never arrived: the collector counts that.
    DispatchEvent event;
    event.dispatch = *record;
    event.for_timestamps = for_timestamps;
    event.for_counters = for_counters;
    active->sink->OnDispatches(id_, {&event, 1});
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
  pending.readings.clear();
  pending.instances.clear();
  if (pending.active == nullptr || pending.sample.slots == 0 ||
      pending.sample.end_ns < pending.sample.begin_ns) {
    EndValues(ring);
  }
}

bool SessionRecords::Continues(const Pending& pending,
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
      values.instance_slots > ROCATTACH_MAX_INSTANCE_SLOTS) {
    return false;
  }
  const CompiledPlan& plan = *pending.active->plan;
  if (values.slot > 0) {
    // The first slot's values were checked, and the GPU is the same.
    if (values.slots != pending.slots || values.pass != pending.pass ||
        values.instance_slots != pending.instance_slots) {
      return false;
    }
  } else {
    const PlanArchitecture* architecture = plan.Architecture(agent);
    if (architecture == nullptr) return false;
    const PassPlan& passes = sample ? architecture->sampler : architecture->dispatch;
    if (values.pass >= passes.passes.size() ||
        values.slots > passes.passes[values.pass].counters.size()) {
      return false;
    }
  }
  for (uint16_t i = 0; i < values.count; ++i) {
    if (values.value[i].counter >= plan.counter_names.size() ||
        values.value[i].instances == 0) {
      return false;
    }
  }
  return true;
}

void SessionRecords::TakeValues(uint32_t ring, const RecordSlot& slot) {
  const auto values = CopyOf<rocattach_values>(slot);
  Pending& pending = PendingOf(ring);
  if (!Continues(pending, values)) {
    // One count for the operation, however many slots follow.
    EndValues(ring);
    return;
  }
  pending.slots = values.slots;
  pending.instance_slots = values.instance_slots;
  pending.pass = values.pass;
  ++pending.next;
  for (uint16_t i = 0; i < values.count; ++i) {
    const rocattach_counter_value& value = values.value[i];
    pending.readings.push_back(
        {value.counter, value.instances, value.sum, value.minimum, value.maximum});
  }
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

// Those of counters without a value are left out, in AppendReadings().
void SessionRecords::TakeInstances(uint32_t ring, const RecordSlot& slot) {
  const auto instances = CopyOf<rocattach_instances>(slot);
  Pending& pending = PendingOf(ring);
  if (!ContinuesInstances(pending, instances)) {
    EndValues(ring);
    return;
  }
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
}

CounterRecord SessionRecords::RecordOf(const Pending& pending) {
  CounterRecord record;
  record.session = pending.active->session;
  record.plan = pending.active->plan_id;
  record.pass = pending.pass;
  return record;
}

void SessionRecords::CompleteDispatch(const Pending& pending) {
  DispatchEvent event;
  event.dispatch = pending.dispatch;
  event.for_timestamps = pending.for_timestamps;
  event.for_counters = pending.for_counters;
  event.pass = pending.pass;
  event.readings = pending.readings;
  if (!pending.for_counters) {
    ++counts_.counted_filtered;
    if (pending.for_timestamps) pending.active->sink->OnDispatches(id_, {&event, 1});
    return;
  }
  ++counts_.counted;
  CounterRecord record = RecordOf(pending);
  record.operation = pending.dispatch.correlation_id;
  record.kernel_id = pending.dispatch.kernel_id;
  record.agent_id = pending.dispatch.agent_id;
  AppendReadings(record, pending, &counter_batch_);
  if (meter_ != nullptr) {
    meter_->AddCounters(pending.dispatch.agent_id, pending.active->plan->counter_names,
                        pending.readings);
  }
  pending.active->sink->OnDispatches(id_, {&event, 1});
}

void SessionRecords::CompleteSample(const Pending& pending) {
  ++counts_.samples;
  CounterRecord record = RecordOf(pending);
  record.operation = pending.sample.sample_id;
  record.agent_id = pending.sample.agent_id;
  record.begin_ns = pending.sample.begin_ns;
  record.end_ns = pending.sample.end_ns;
  AppendReadings(record, pending, &sample_batch_);
  SampleEvent event;
  event.agent_id = pending.sample.agent_id;
  event.pass = pending.pass;
  event.begin_ns = pending.sample.begin_ns;
  event.end_ns = pending.sample.end_ns;
  event.readings = pending.readings;
  pending.active->sink->OnSamples(id_, {&event, 1});
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
  if (text.slot != pending.next || text.bytes > sizeof(text.text)) {
    return EndValues(ring);
  }
  pending.record.text.append(text.text, text.bytes);
  if (++pending.next == pending.slots) CompleteCall(&pending);
}

void SessionRecords::CompleteCall(PendingCall* pending) {
  ++counts_.api_calls;
  ApiCallRecord& record = pending->record;
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
  StreamWriter* writer = output_.writer;
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
