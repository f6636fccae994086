// SessionRecords: values of dispatches and samples.
#include <string.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "userspace/record/session_records.h"
#include "userspace/record/slot_copy.h"
#include "userspace/record/value_slots.h"

namespace rocattach {
namespace {

// Sinks get what is in the rings, under another name.
static_assert(sizeof(CounterReading) == sizeof(rocattach_counter_value));
static_assert(offsetof(CounterReading, instances) ==
              offsetof(rocattach_counter_value, instances));
static_assert(offsetof(CounterReading, sum) == offsetof(rocattach_counter_value, sum));
static_assert(offsetof(CounterReading, maximum) ==
              offsetof(rocattach_counter_value, maximum));

void AppendReadings(absl::Span<const rocattach_counter_value> values,
                    std::vector<CounterReading>* readings) {
  const size_t before = readings->size();
  readings->resize(before + values.size());
  if (values.empty()) return;
  memcpy(static_cast<void*>(readings->data() + before), values.data(),
         values.size() * sizeof(values[0]));
}

}  // namespace

// One record for each value; `record` has what they share. Instances are in the order
// of the SDK, which is another one, and need not be there for all values.
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

absl::Span<const CounterReading> SessionRecords::ReadingsOf(
    absl::Span<const rocattach_counter_value> values) {
  some_readings_.clear();
  AppendReadings(values, &some_readings_);
  return some_readings_;
}

bool SessionRecords::SinkReads(bool for_timestamps, bool for_counters) {
  uint8_t& reads = reads_[(for_timestamps ? 2 : 0) + (for_counters ? 1 : 0)];
  if (reads == 0) {
    reads = events_of_->sink->ReadsDispatches(for_timestamps, for_counters) ? 2 : 1;
  }
  return reads == 2;
}

void SessionRecords::UseEventsOf(const std::shared_ptr<ActivePlan>& active) {
  if (active == events_of_) return;
  std::shared_ptr<ActivePlan> next = active;  // a program's callbacks may end the plan
  PassEvents();
  events_of_ = std::move(next);
}

// One call for many, and none that only counts: most sessions are only recorded.
void SessionRecords::AddEvent(const CountedDispatch& counted, bool for_timestamps,
                              bool for_counters) {
  if (!SinkReads(for_timestamps, for_counters)) {
    unread_for_timestamps_ += for_timestamps ? 1 : 0;
    unread_for_counters_ += for_counters ? 1 : 0;
    return;
  }
  event_readings_.push_back(readings_.size());
  AppendReadings(counted.values, &readings_);
  DispatchEvent& event = events_.emplace_back();
  event.dispatch = counted.dispatch;
  event.for_timestamps = for_timestamps;
  event.for_counters = for_counters;
  event.pass = counted.pass;
}

void SessionRecords::PassEvents() {
  memset(reads_, 0, sizeof(reads_));
  if ((unread_for_timestamps_ | unread_for_counters_) != 0) {
    events_of_->sink->CountDispatches(std::exchange(unread_for_timestamps_, 0),
                                      std::exchange(unread_for_counters_, 0));
  }
  if (events_.empty()) return;
  // The sink may run a program's callbacks: nothing of ours may be in use meanwhile.
  const std::shared_ptr<ActivePlan> active = events_of_;
  std::vector<DispatchEvent> events = std::move(events_);
  std::vector<CounterReading> readings = std::move(readings_);
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
  events_ = std::move(events);  // with their room
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
    // The first slot's values were checked, and the GPU is the same.
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

// What the slots have in common is compared with what was checked before; the values are
// copied to where the encoder takes them from. A sink is only counted for or gets its
// events later: the plan stays in force until this returns.
size_t SessionRecords::TakeCounted(uint32_t ring, rocattach_dispatch* record,
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

void SessionRecords::TakeValues(uint32_t ring, const RecordSlot& slot) {
  const auto values = CopyOf<rocattach_values>(slot);
  Pending& pending = PendingOf(ring);
  if (!Continues(pending, values)) {
    // One count for the operation, however many slots follow.
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

// Those of counters without a value are left out, in AppendReadings().
void SessionRecords::TakeInstances(uint32_t ring, const RecordSlot& slot) {
  const auto instances = CopyOf<rocattach_instances>(slot);
  Pending& pending = PendingOf(ring);
  // Only what is split over two reads of its ring is kept, so there is little at a time.
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
                      ReadingsOf(counted.values));
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
  // TakeCounted() has put them there already.
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
  event.readings = ReadingsOf(pending.values);
  if (meter_ != nullptr && event.end_ns > event.begin_ns) {
    meter_->AddSample(event.agent_id, pending.active->plan->counter_names,
                      event.readings, event.end_ns - event.begin_ns);
  }
  pending.active->sink->OnSamples(id_, {&event, 1});
}

}  // namespace rocattach
