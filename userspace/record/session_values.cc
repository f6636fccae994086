// SessionRecords: values of dispatches and samples.
#include <string.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "userspace/record/session_records.h"
#include "userspace/record/slot_copy.h"

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

// What precedes the values of a slot, as words: kind, slots, slot and count;
// correlation id; generation; pass, agent, of and instance_slots.
struct SlotHead {
  uint64_t words[4];
};
constexpr uint64_t kKindAndSlots = 0xffffffff;
constexpr int kSlotShift = 32, kCountShift = 48;
static_assert(offsetof(rocattach_values, kind) == 0);
static_assert(offsetof(rocattach_values, slots) == 2);
static_assert(offsetof(rocattach_values, slot) == 4);
static_assert(offsetof(rocattach_values, count) == 6);
static_assert(offsetof(rocattach_values, value) == sizeof(SlotHead));
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

SlotHead HeadOf(const RecordSlot& slot) {
  SlotHead head;
  memcpy(&head, slot.bytes, sizeof(head));
  return head;
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

// One call for many, and none that only counts: most sessions are only recorded.
void SessionRecords::AddEvent(const Pending& pending,
                              absl::Span<const rocattach_counter_value> values) {
  if (pending.active != events_of_) {
    PassEvents();
    events_of_ = pending.active;
  }
  if (!events_of_->sink->ReadsDispatches(pending.for_timestamps,
                                         pending.for_counters)) {
    unread_for_timestamps_ += pending.for_timestamps ? 1 : 0;
    unread_for_counters_ += pending.for_counters ? 1 : 0;
    return;
  }
  event_readings_.push_back(readings_.size());
  AppendReadings(values, &readings_);
  DispatchEvent& event = events_.emplace_back();
  event.dispatch = pending.dispatch;
  event.for_timestamps = pending.for_timestamps;
  event.for_counters = pending.for_counters;
  event.pass = pending.pass;
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

rocattach_counter_value* SessionRecords::RoomFor(size_t values) {
  if (values_.size() - values_used_ < values) {
    values_.resize(2 * values_.size() + values);
  }
  return values_.data() + values_used_;
}

// What the slots have in common is checked with the first one; the others are compared
// with it, and copied to where the encoder takes them from.
size_t SessionRecords::TakeAllValues(uint32_t ring,
                                     absl::Span<const RecordSlot> slots) {
  Pending& pending = PendingOf(ring);
  if (pending.of != Pending::Of::kDispatch || slots.empty()) return 0;
  const auto first = CopyOf<rocattach_values>(slots[0]);
  const size_t count = first.slots;
  if (first.kind != ROCATTACH_RECORD_VALUES || slots.size() < count ||
      first.instance_slots != 0 || !Continues(pending, first)) {
    return 0;
  }
  const size_t counters = pending.active->plan->counter_names.size();
  rocattach_counter_value* const room = RoomFor(count * ROCATTACH_VALUES_PER_SLOT);
  const SlotHead same = HeadOf(slots[0]);
  size_t used = 0;
  for (size_t i = 0; i < count; ++i) {
    const SlotHead head = HeadOf(slots[i]);
    const uint64_t in_slot = head.words[0] >> kCountShift;
    // All but the slot's number and how many values it has.
    const uint64_t differ = ((head.words[0] ^ same.words[0]) & kKindAndSlots) |
                            (head.words[1] ^ same.words[1]) |
                            (head.words[2] ^ same.words[2]) |
                            (head.words[3] ^ same.words[3]);
    if (differ != 0 || (head.words[0] >> kSlotShift & 0xffff) != i ||
        in_slot - 1 >= ROCATTACH_VALUES_PER_SLOT) {
      return 0;
    }
    // The second one, if it is not used, is overwritten by the next slot's.
    memcpy(room + used, slots[i].bytes + sizeof(head), sizeof(first.value));
    for (size_t k = used; k < used + in_slot; ++k) {
      if (room[k].counter >= counters || room[k].instances == 0) return 0;
    }
    used += in_slot;
  }
  pending.pass = first.pass;
  pending.of = Pending::Of::kNothing;
  CompleteDispatch(pending, {room, used});
  return count;
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
    CompleteDispatch(*pending, pending->values);
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

void SessionRecords::CompleteDispatch(
    const Pending& pending, absl::Span<const rocattach_counter_value> values) {
  if (pending.for_timestamps || pending.for_counters) AddEvent(pending, values);
  if (!pending.for_counters) {
    ++counts_.counted_filtered;
    return;
  }
  ++counts_.counted;
  if (meter_ != nullptr) {
    meter_->AddCounters(pending.dispatch.agent_id, pending.active->plan->counter_names,
                        ReadingsOf(values));
  }
  if (pending.instances.empty()) return AddOperation(pending, values);
  CounterRecord record = RecordOf(pending);
  record.operation = pending.dispatch.correlation_id;
  record.kernel_id = pending.dispatch.kernel_id;
  record.agent_id = pending.dispatch.agent_id;
  AppendRecords(record, pending, &counter_batch_);
}

void SessionRecords::AddOperation(const Pending& pending,
                                  absl::Span<const rocattach_counter_value> values) {
  CounterOperation& operation = operations_.emplace_back();
  operation.session = pending.active->session;
  operation.operation = pending.dispatch.correlation_id;
  operation.plan = pending.active->plan_id;
  operation.kernel_id = pending.dispatch.kernel_id;
  operation.pass = pending.pass;
  operation.agent_id = pending.dispatch.agent_id;
  operation.values = static_cast<uint32_t>(values.size());
  // TakeAllValues() has put them there already.
  if (values.data() != values_.data() + values_used_) {
    std::copy(values.begin(), values.end(), RoomFor(values.size()));
  }
  values_used_ += values.size();
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
  pending.active->sink->OnSamples(id_, {&event, 1});
}

}  // namespace rocattach
