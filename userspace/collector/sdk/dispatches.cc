#include "userspace/collector/sdk/dispatches.h"

#include <string.h>

#include "userspace/abi/hip_stream.h"
#include "userspace/abi/inflight.h"
#include "userspace/collector/sdk/values.h"

namespace rocattach::collector {
namespace {

uint16_t Bounded(uint32_t value) {
  return static_cast<uint16_t>(value < UINT16_MAX ? value : UINT16_MAX);
}

// The end of a dispatch, according to the SDK; implausible times are removed.
OperationEnd EndOf(uint64_t start_ns, uint64_t end_ns, RingHandle* ring) {
  if (start_ns != 0 && end_ns >= start_ns) {
    return {0, ToServiceNs(start_ns), ToServiceNs(end_ns)};
  }
  ring->Count(&rocattach_ring::dispatches_untimed, uint64_t{1});
  return {ROCATTACH_DISPATCH_UNTIMED, 0, 0};
}

// Adds up the time of a callback for every 61st dispatch: a power of two would coincide
// too often with the first use of a page of our tables.
class CostSample {
 public:
  // `clock_ns`: time that reading the clock adds.
  CostSample(uint64_t dispatch_id, uint64_t clock_ns, uint64_t* total)
      : total_(dispatch_id % kEvery == 0 ? total : nullptr), clock_ns_(clock_ns) {
    if (Unlikely(total_ != nullptr)) begin_ = BootNs();
  }
  ~CostSample() {
    if (Likely(total_ == nullptr)) return;
    const uint64_t took = BootNs() - begin_;
    if (took > clock_ns_) {
      __atomic_fetch_add(total_, (took - clock_ns_) * kEvery, __ATOMIC_RELAXED);
    }
  }
  CostSample(const CostSample&) = delete;
  CostSample& operator=(const CostSample&) = delete;

 private:
  static constexpr uint64_t kEvery = 61;
  uint64_t* total_;
  const uint64_t clock_ns_;
  uint64_t begin_ = 0;
};

// The shortest time between two readings of the clock.
uint64_t MeasureClock() {
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 32; ++i) {
    const uint64_t begin = BootNs();
    const uint64_t apart = BootNs() - begin;
    if (apart < least) least = apart;
  }
  return least;
}

constexpr uint32_t kForCounters =
    ROCATTACH_DISPATCH_FOR_COUNTERS | ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED;

}  // namespace

int SdkDispatches::Init(Memory* memory, const Parts& parts) {
  parts_ = parts;
  clock_ns_ = MeasureClock();
  return ops_.Init(memory);
}

uint32_t SdkDispatches::QueueId(rocattach_sdk_queue_id queue, uint16_t agent_id) {
  if (queue.handle == 0) return 0;
  uint32_t id = queues_.Find(queue.handle);
  if (Likely(id != 0)) return id;
  TinyLockHolder hold(queues_lock_);
  id = queues_.Find(queue.handle);
  if (id != 0) return id;
  rocattach_queue_entry entry = {};
  entry.agent_id = agent_id;
  entry.hsa_queue_id = queue.handle;
  entry.created_ns = BootNs();
  id = parts_.dictionary->Append(ROCATTACH_ENTRY_QUEUE, &entry, nullptr, 0);
  if (id != 0) queues_.Insert(queue.handle, id);
  return id;
}

void SdkDispatches::Fill(const rocattach_sdk_dispatch_info& info, uint32_t kernel,
                         uint16_t agent_id, const Decision& decision, RingHandle* ring,
                         rocattach_inflight* entry) {
  uint32_t baseline = LoadRelaxed(&baseline_) != 0 ? ROCATTACH_DISPATCH_BASELINE : 0u;
  entry->flags = static_cast<uint16_t>(decision.flags | baseline);
  entry->tid = ring->tid();
  entry->correlation_id =
      __atomic_fetch_add(parts_.next_correlation, 1u, __ATOMIC_RELAXED);
  entry->enqueue_ns = BootNs();
  rocattach_inflight_dispatch* d = &entry->u.dispatch;
  d->kernel_id = kernel;
  d->queue_id = QueueId(info.queue_id, agent_id);
  d->grid_x = info.grid_size.x;
  d->grid_y = info.grid_size.y;
  d->grid_z = info.grid_size.z;
  d->workgroup_x = Bounded(info.workgroup_size.x);
  d->workgroup_y = Bounded(info.workgroup_size.y);
  d->workgroup_z = Bounded(info.workgroup_size.z);
  d->agent_id = agent_id;
  d->lds_bytes = info.group_segment_size;
  d->scratch_bytes = info.private_segment_size;
  d->iteration = decision.iteration;
  d->packet_index = PacketIndexOf(parts_.streams->Current());
  d->dispatch_id = info.dispatch_id;
}

// The plan's decision, and its counters. Both come from one read of the plan: if it
// changes later, this dispatch is still counted by the old one.
Decision SdkDispatches::Decide(const PlanState* state,
                               const rocattach_sdk_dispatch_info& info, uint32_t kernel,
                               uint32_t agent, SdkOp* count) {
  Decision decision = parts_.plans->Decide(
      state, kernel, parts_.agents->at(agent).dictionary_id, info.dispatch_id);
  if (!decision.counters) return decision;
  const SdkPassTable* table = LoadAcquire(&passes_);
  uint64_t generation = LoadAcquire(&state->generation);
  // Not every GPU has to be of an architecture that the plan counts on.
  if (table != nullptr && LoadAcquire(&table->generation) == generation &&
      table->dispatch_passes[agent] != 0) {
    const bool by_time = state->plan.rotation == ROCATTACH_ROTATE_TIME;
    uint32_t due = rocattach_plan_due_pass(&state->plan, table->dispatch_passes[agent],
                                           decision.iteration, by_time ? BootNs() : 0);
    count->first_pass = table->dispatch_first[agent];
    count->pass = static_cast<uint16_t>(count->first_pass + due);
    count->config = table->config[agent][count->pass % ROCATTACH_PLAN_MAX_PASSES];
    count->config_handle = parts_.configs->HandleOf(count->config);
    if (count->config_handle != 0 && StillGeneration(&table->generation, generation) &&
        PlanSet::Keep(state, generation)) {
      // Configs that a kept plan uses are kept: check again, now that this plan is.
      if (parts_.configs->HandleOf(count->config) == count->config_handle) {
        count->plan = state;
        count->generation = generation;
        return decision;
      }
      PlanSet::Release(state);
    }
  }
  decision.counters = false;
  decision.flags = static_cast<uint16_t>(decision.flags & ~kForCounters);
  return decision;
}

// The entry of a dispatch that is to be recorded, created by the service that calls
// first.
uint32_t SdkDispatches::Open(const rocattach_sdk_dispatch_info& info,
                             RingHandle* ring) {
  uint32_t index = kNoOp;
  if (ops_.LoadIndex(info.dispatch_id, &index)) return index;
  uint32_t agent_index = parts_.agents->Find(info.agent_id);
  uint32_t kernel = parts_.kernels->Find(info.kernel_id);
  const PlanState* state = parts_.plans->active();
  Decision decision;
  SdkOp count = {};
  if (state != nullptr && agent_index != SdkAgents::kNone) {
    decision = Decide(state, info, kernel, agent_index, &count);
  }
  if (LoadRelaxed(&baseline_) == 0 && !decision.dispatch && !decision.counters) {
    ops_.StoreIndex(info.dispatch_id, kNoOp);
    return kNoOp;
  }
  const bool of_plan = decision.dispatch || decision.counters;
  if (ring->CountSeen(of_plan ? ROCATTACH_SAMPLING_EVERY
                              : LoadRelaxed(parts_.sampling))) {
    ops_.StoreIndex(info.dispatch_id, kNoOp);
    return kNoOp;
  }
  index = ops_.Take();
  ops_.StoreIndex(info.dispatch_id, index);
  if (index == kNoOp) {
    if (count.plan != nullptr) PlanSet::Release(count.plan);
    __atomic_fetch_add(parts_.other_dropped, uint64_t{1}, __ATOMIC_RELAXED);
    return kNoOp;
  }
  SdkOp& op = ops_.at(index);
  op.plan = count.plan;
  op.generation = count.generation;
  op.config_handle = count.config_handle;
  op.config = count.config;
  op.pass = count.pass;
  op.first_pass = count.first_pass;
  op.counted = 0;
  uint16_t agent_id = agent_index != SdkAgents::kNone
                          ? parts_.agents->at(agent_index).dictionary_id
                          : uint16_t{0};
  rocattach_inflight* shared = ops_.shared(index);
  Fill(info, kernel, agent_id, decision, ring, shared);
  StoreRelease(&op.dispatch_id, info.dispatch_id);
  StoreRelease(&shared->kind, uint16_t{ROCATTACH_RECORD_DISPATCH});
  ring->Count(&rocattach_ring::inflight, int64_t{1});
  return index;
}

void SdkDispatches::OnTrace(const rocattach_sdk_callback_record& record,
                            rocattach_sdk_user_data* user_data) {
  auto* payload =
      static_cast<const rocattach_sdk_callback_kernel_dispatch*>(record.payload);
  CostSample cost(payload->dispatch_info.dispatch_id, clock_ns_, parts_.own_ns);
  RingGate* gate = parts_.gate;
  if (record.operation == ROCATTACH_SDK_DISPATCH_ENQUEUE) {
    if (record.phase != ROCATTACH_SDK_PHASE_ENTER) return;
    if (gate != nullptr) {
      gate->DispatchBegun(payload->dispatch_info.queue_id.handle);
      g_process.worker.Nudge();
    }
    RingHandle ring = parts_.rings->Mine();
    uint32_t index = Open(payload->dispatch_info, &ring);
    user_data->value = index == kNoOp ? 0 : uint64_t{index} + 1;
    return;
  }
  if (record.operation != ROCATTACH_SDK_DISPATCH_COMPLETE) return;
  OnCompleteTrace(*payload, user_data->value);
  if (gate != nullptr) gate->DispatchOver(payload->dispatch_info.queue_id.handle);
}

void SdkDispatches::OnCompleteTrace(
    const rocattach_sdk_callback_kernel_dispatch& payload, uint64_t user_data) {
  uint32_t index = ops_.Find(user_data, payload.dispatch_info.dispatch_id);
  if (index == kNoOp || LoadAcquire(&ops_.at(index).counted) != 0 ||
      !ops_.Claim(index, payload.dispatch_info.dispatch_id)) {
    return;
  }
  // Counting began between the two services' callbacks for this dispatch: it was never
  // counted.
  rocattach_inflight* entry = ops_.shared(index);
  entry->flags = static_cast<uint16_t>(entry->flags & ~kForCounters);
  Publish(index, payload.start_timestamp, payload.end_timestamp);
}

void SdkDispatches::OnEnqueue(const rocattach_sdk_dispatch_data& data,
                              rocattach_sdk_counter_config_id* config,
                              rocattach_sdk_user_data* user_data) {
  CostSample cost(data.dispatch_info.dispatch_id, clock_ns_, parts_.own_ns);
  RingHandle ring = parts_.rings->Mine();
  uint32_t index = Open(data.dispatch_info, &ring);
  if (index == kNoOp) return;
  SdkOp& op = ops_.at(index);
  if (op.plan == nullptr) return;
  StoreRelease(&op.counted, 1u);
  ring.Count(&rocattach_ring::counted_seen, uint64_t{1});
  config->handle = op.config_handle;
  user_data->value = uint64_t{index} + 1;
}

void SdkDispatches::Publish(uint32_t index, uint64_t start_ns, uint64_t end_ns) {
  RingHandle ring = parts_.rings->Mine();
  OperationEnd end = EndOf(start_ns, end_ns, &ring);
  rocattach_dispatch record;
  UnpackDispatch(*ops_.shared(index), end, &record);
  ring.PushDispatch(record, ops_.shared(index));
  ring.Count(&rocattach_ring::inflight, int64_t{-1});
  ops_.Give(index);
}

uint32_t SdkDispatches::MakeValues(const SdkOp& op, const rocattach_inflight& entry,
                                   const rocattach_sdk_counter_record* records,
                                   size_t count, uint32_t ring_slots,
                                   rocattach_values* slots, uint32_t* instance_slots) {
  const PlanState* state = op.plan;
  if (state == nullptr) return 0;
  const SdkConfig& config = parts_.configs->at(op.config);
  CounterReducer reducer(parts_.sdk, config, parts_.configs->order(op.config));
  const bool all_known = reducer.AddAll(records, count);
  const bool each =
      (state->plan.record_kinds & ROCATTACH_PLAN_RECORD_INSTANCES) != 0 && all_known;
  *instance_slots = each ? InstancePacker::SlotsIn(count, ring_slots) : 0;
  rocattach_values head = {};
  head.kind = ROCATTACH_RECORD_VALUES;
  head.correlation_id = entry.correlation_id;
  head.plan_generation = op.generation;
  head.pass = static_cast<uint16_t>(op.pass - op.first_pass);
  head.agent_id = entry.u.dispatch.agent_id;
  head.of = ROCATTACH_RECORD_DISPATCH;
  head.instance_slots = static_cast<uint16_t>(*instance_slots);
  uint32_t total = 0;
  return PackValues(reducer, config, state->plan, state->plan.pass[op.pass], head,
                    slots, &total);
}

void SdkDispatches::OnValues(const rocattach_sdk_dispatch_data& data,
                             const rocattach_sdk_counter_record* records, size_t count,
                             rocattach_sdk_user_data user_data) {
  CostSample cost(data.dispatch_info.dispatch_id, clock_ns_, parts_.own_ns);
  uint32_t index = ops_.Find(user_data.value, data.dispatch_info.dispatch_id);
  if (index == kNoOp || !ops_.Claim(index, data.dispatch_info.dispatch_id)) return;
  struct Group {
    rocattach_dispatch dispatch;
    rocattach_values values[kMaxValueSlots];
  } group;
  const rocattach_inflight& entry = *ops_.shared(index);
  RingHandle ring = parts_.rings->Mine();
  uint32_t instances = 0;
  uint32_t slots = MakeValues(ops_.at(index), entry, records, count, ring.slots(),
                              group.values, &instances);
  if (slots == 0) {
    ring.Count(&rocattach_ring::values_dropped, uint64_t{1});
    return Publish(index, data.start_timestamp, data.end_timestamp);
  }
  OperationEnd end = EndOf(data.start_timestamp, data.end_timestamp, &ring);
  end.flags = static_cast<uint16_t>(end.flags | ROCATTACH_DISPATCH_COUNTED);
  UnpackDispatch(entry, end, &group.dispatch);
  const bool pushed =
      instances == 0
          // As in RingHandle::PushOperation.
          ? ring.PushGroup(&group, 1 + slots, [this, index] { ops_.Clear(index); })
          : PushInstances(index, &group, 1 + slots, instances, records, count, &ring);
  if (!pushed) {
    ring.Count(&rocattach_ring::dispatches_dropped, uint64_t{1});
    ring.Count(&rocattach_ring::counted_dropped, uint64_t{1});
  }
  ring.Count(&rocattach_ring::inflight, int64_t{-1});
  ops_.Give(index);
}

bool SdkDispatches::PushInstances(uint32_t index, const void* group, uint32_t slots,
                                  uint32_t instances,
                                  const rocattach_sdk_counter_record* records,
                                  size_t count, RingHandle* ring) {
  const SdkOp& op = ops_.at(index);
  const rocattach_plan& plan = op.plan->plan;
  InstancePacker packer(parts_.sdk, parts_.configs->dimensions(),
                        parts_.configs->at(op.config), parts_.configs->order(op.config),
                        plan, plan.pass[op.pass]);
  const uint64_t correlation_id = ops_.shared(index)->correlation_id;
  const auto* from = static_cast<const uint8_t*>(group);
  const auto fill = [&](uint32_t i, void* slot) {
    if (i < slots) {
      memcpy(slot, from + size_t{i} * ROCATTACH_SLOT_BYTES, ROCATTACH_SLOT_BYTES);
    } else {
      packer.Fill(records, count, i - slots, correlation_id,
                  static_cast<rocattach_instances*>(slot));
    }
  };
  return ring->PushGroupWith(slots + instances, fill,
                             [this, index] { ops_.Clear(index); });
}

void SdkDispatches::PublishRest() {
  RingHandle ring = parts_.rings->Mine();
  for (uint32_t i = 0; i < ops_.used(); ++i) {
    if (!ops_.Claim(i, LoadAcquire(&ops_.at(i).dispatch_id))) continue;
    rocattach_dispatch record;
    UnpackDispatch(*ops_.shared(i),
                   {ROCATTACH_DISPATCH_UNTIMED | ROCATTACH_DISPATCH_UNFINISHED, 0, 0},
                   &record);
    ring.PushDispatch(record, ops_.shared(i));
    ring.Count(&rocattach_ring::dispatches_untimed, uint64_t{1});
    ring.Count(&rocattach_ring::inflight, int64_t{-1});
    ops_.Give(i);
  }
}

}  // namespace rocattach::collector
