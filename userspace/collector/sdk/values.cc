#include "userspace/collector/sdk/values.h"

namespace rocattach::collector {

void InstancePacker::Fill(const rocattach_sdk_counter_record* records, size_t count,
                          uint32_t number, uint64_t correlation_id,
                          rocattach_instances* slot) {
  *slot = {};
  slot->kind = ROCATTACH_RECORD_INSTANCES;
  slot->slot = static_cast<uint16_t>(number);
  slot->correlation_id = correlation_id;
  const size_t begin = size_t{number} * ROCATTACH_INSTANCES_PER_SLOT;
  for (size_t i = begin; i < count && i < begin + ROCATTACH_INSTANCES_PER_SLOT; ++i) {
    const uint32_t place = reducer_.FindAt(i, records[i].id);
    if (place >= pass_.counters) continue;
    const uint64_t counter = plan_.pass_counters[pass_.first_counter + place];
    slot->value[slot->count++] = {counter << ROCATTACH_INSTANCE_COUNTER_SHIFT |
                                      dimensions_.Position(*sdk_, records[i].id),
                                  records[i].counter_value};
  }
}

uint32_t CounterReducer::Find(rocattach_sdk_instance_id instance) {
  rocattach_sdk_counter_id id = {0};
  if (sdk_->query_record_counter_id(instance, &id) != ROCATTACH_SDK_STATUS_SUCCESS) {
    return kNone;
  }
  // Instances of one counter are adjacent.
  for (uint32_t i = 0; i < config_.count; ++i) {
    uint32_t place = last_ + i < config_.count ? last_ + i : last_ + i - config_.count;
    if (config_.counters[place] == id.handle) return last_ = place;
  }
  return kNone;
}

namespace {

// Sums of a run while it is added up: the values that are compared and added up stay in
// registers, and there is no branch for each record.
struct RunSums {
  RunSums(const rocattach_counter_value& v, double first)
      : sum(v.instances == 0 ? -0.0 : v.sum),  // changes nothing, not even a sign
        minimum(v.instances == 0 ? first : v.minimum),
        maximum(v.instances == 0 ? first : v.maximum) {}
  void Add(const rocattach_sdk_counter_record& record, uint64_t known) {
    const double value = record.counter_value;
    differ |= record.id ^ known;
    sum += value;
    minimum = value < minimum ? value : minimum;
    maximum = value > maximum ? value : maximum;
  }
  void Store(uint32_t count, rocattach_counter_value* v) const {
    v->sum = sum;
    v->minimum = minimum;
    v->maximum = maximum;
    v->instances += count;
  }

  double sum, minimum, maximum;
  uint64_t differ = 0;
};

}  // namespace

bool CounterReducer::AddRun(const InstanceOrder::Run& run,
                            const rocattach_sdk_counter_record* records) {
  const uint64_t* known = order_->instances();
  RunSums sums(values_[run.place], records[run.begin].counter_value);
  for (uint32_t i = run.begin; i < run.end; ++i) sums.Add(records[i], known[i]);
  if (Unlikely(sums.differ != 0)) return false;
  sums.Store(static_cast<uint32_t>(run.end - run.begin), &values_[run.place]);
  return true;
}

// These loops take most of our time for a counted dispatch, which has hundreds of
// instances. Each addition waits for the one before, since their order is part of the
// result. So two counters are added up at a time.
bool CounterReducer::AddRuns(const InstanceOrder::Run& run,
                             const InstanceOrder::Run& next,
                             const rocattach_sdk_counter_record* records) {
  const auto count = static_cast<uint32_t>(run.end - run.begin);
  const uint64_t *known = order_->instances() + run.begin,
                 *known_next = order_->instances() + next.begin;
  const rocattach_sdk_counter_record *from = records + run.begin,
                                     *from_next = records + next.begin;
  RunSums sums(values_[run.place], from->counter_value);
  RunSums sums_next(values_[next.place], from_next->counter_value);
  for (uint32_t i = 0; i < count; ++i) {
    sums.Add(from[i], known[i]);
    sums_next.Add(from_next[i], known_next[i]);
  }
  if (Unlikely((sums.differ | sums_next.differ) != 0)) return false;
  sums.Store(count, &values_[run.place]);
  sums_next.Store(count, &values_[next.place]);
  return true;
}

bool CounterReducer::AddAll(const rocattach_sdk_counter_record* records, size_t count) {
  bool all_known = true;
  size_t done = 0;
  const auto usable = [&](const InstanceOrder::Run& run) {
    return run.end <= count && run.place < config_.count;
  };
  for (uint32_t i = 0, runs = order_ == nullptr ? 0 : order_->runs(); i < runs; ++i) {
    const InstanceOrder::Run& run = order_->run(i);
    if (!usable(run)) break;
    if (i + 1 < runs) {
      const InstanceOrder::Run& next = order_->run(i + 1);
      if (next.end - next.begin == run.end - run.begin && next.place != run.place &&
          usable(next) && AddRuns(run, next, records)) {
        done = next.end;
        ++i;
        continue;
      }
    }
    if (!AddRun(run, records)) break;
    done = run.end;
  }
  const bool stores = order_ != nullptr && done == 0 && order_->Begin();
  for (size_t i = done; i < count; ++i) {
    const uint32_t place = FindAt(i, records[i].id);
    if (stores) order_->Store(i, records[i].id, place);
    if (place != kNone) {
      Add(place, records[i].counter_value);
    } else {
      all_known = false;
    }
  }
  // If an instance belongs to no counter of the config, there is no order to rely on.
  if (stores && all_known) order_->Publish(count);
  return all_known;
}

void CounterReducer::Add(uint32_t place, double value) {
  rocattach_counter_value& v = values_[place];
  if (v.instances == 0) {
    v.sum = v.minimum = v.maximum = value;
  } else {
    v.sum += value;
    if (value < v.minimum) v.minimum = value;
    if (value > v.maximum) v.maximum = value;
  }
  ++v.instances;
}

uint32_t PackValues(const CounterReducer& reducer, const SdkConfig& config,
                    const rocattach_plan& plan, const rocattach_plan_pass& pass,
                    const rocattach_values& head, rocattach_values* slots,
                    uint32_t* total) {
  uint32_t used = 0;
  uint32_t values = 0;
  for (uint32_t i = 0; i < config.count && i < pass.counters; ++i) {
    if (reducer.at(i).instances == 0) continue;
    if (values % ROCATTACH_VALUES_PER_SLOT == 0) {
      slots[used] = head;
      slots[used].slot = static_cast<uint16_t>(used);
      slots[used].count = 0;
      ++used;
    }
    rocattach_values& slot = slots[used - 1];
    rocattach_counter_value& value = slot.value[slot.count++];
    value = reducer.at(i);
    value.counter = plan.pass_counters[pass.first_counter + i];
    value.pad = 0;
    ++values;
  }
  for (uint32_t i = 0; i < used; ++i) slots[i].slots = static_cast<uint16_t>(used);
  *total = values;
  return used;
}

}  // namespace rocattach::collector
