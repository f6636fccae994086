#include "userspace/collector/sdk/samples.h"

#include <string.h>
#include <sys/mman.h>

namespace rocattach::collector {
namespace {

constexpr size_t kFirstRoom = 4096;
constexpr size_t kMostRoom = 1 << 20;
constexpr uint64_t kShortestIntervalNs = 100'000;

// Plans come from another process: their times may be anything.
constexpr uint64_t SaturatingAdd(uint64_t a, uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

}  // namespace

bool SdkSamples::Configure() {
  if (parts_.sdk->configure_device_counting == nullptr ||
      parts_.sdk->sample_device_counting == nullptr) {
    return false;
  }
  for (uint32_t i = 0; i < parts_.agents->count(); ++i) {
    if (!parts_.agents->at(i).gpu) continue;
    Gpu& gpu = gpus_[gpu_count_];
    gpu = {};
    gpu.self = this;
    gpu.agent = i;
    if (parts_.sdk->create_context(&gpu.context) != ROCATTACH_SDK_STATUS_SUCCESS ||
        parts_.sdk->configure_device_counting(gpu.context, {0}, parts_.agents->at(i).id,
                                              &OnStart,
                                              &gpu) != ROCATTACH_SDK_STATUS_SUCCESS) {
      continue;
    }
    ++gpu_count_;
  }
  return gpu_count_ != 0;
}

void SdkSamples::OnStart(rocattach_sdk_context_id context, rocattach_sdk_agent_id,
                         rocattach_sdk_set_config_fn set_config, void* data) {
  auto* gpu = static_cast<Gpu*>(data);
  gpu->set_status = set_config(context, {gpu->config});
}

bool SdkSamples::Grow(size_t records) {
  if (records <= room_) return true;
  if (records > kMostRoom) return false;
  auto* memory = static_cast<rocattach_sdk_counter_record*>(
      AllocatePrivate(records * sizeof(rocattach_sdk_counter_record)));
  if (memory == nullptr) return false;
  size_t old = room_;
  if (records_ != nullptr) munmap(records_, old * sizeof(*records_));
  records_ = memory;
  room_ = records;
  // The kept values are resized and reset.
  for (uint32_t i = 0; i < gpu_count_; ++i) {
    if (gpus_[i].last != nullptr) munmap(gpus_[i].last, old * sizeof(double));
    gpus_[i].last = nullptr;
  }
  return true;
}

rocattach_sdk_status SdkSamples::StartGpu(Gpu* gpu) {
  uint32_t pass = table_->sampler_first[gpu->agent] + gpu->pass;
  uint32_t place = table_->config[gpu->agent][pass];
  gpu->config = parts_.configs->at(place).handle;
  gpu->known = 0;
  gpu->set_status = ROCATTACH_SDK_STATUS_SUCCESS;
  rocattach_sdk_status status = parts_.sdk->start_context(gpu->context);
  if (status == ROCATTACH_SDK_STATUS_SUCCESS) {
    gpu->started = true;
    status = gpu->set_status;
  }
  gpu->begin_ns = BootNs();
  return status;
}

void SdkSamples::StopGpu(Gpu* gpu) {
  if (gpu->started) parts_.sdk->stop_context(gpu->context);
  gpu->started = false;
}

PlanResult SdkSamples::Start(const PlanState* state, const SdkPassTable* table) {
  if (!Grow(kFirstRoom)) {
    return PlanResult::Error(ROCATTACH_PLAN_ERROR_NO_MEMORY, ENOMEM,
                             "the process has no memory for samples");
  }
  state_ = state;
  table_ = table;
  for (uint32_t i = 0; i < gpu_count_; ++i) {
    Gpu& gpu = gpus_[i];
    if (table->sampler_passes[gpu.agent] == 0) continue;
    gpu.pass = 0;
    // Also before a delay: a refusal of the SDK must be the plan's answer.
    rocattach_sdk_status status = StartGpu(&gpu);
    if (status == ROCATTACH_SDK_STATUS_SUCCESS) {
      if (state->plan.sample_delay_ns != 0) StopGpu(&gpu);
      continue;
    }
    Stop();
    return PlanResult::Error(
        PlanErrorOf(status), status, "device counting on %s does not start: %s",
        parts_.agents->at(gpu.agent).name, StatusName(*parts_.sdk, status));
  }
  const rocattach_plan& plan = state->plan;
  uint64_t origin = plan.start_ns != 0 ? plan.start_ns : BootNs();
  begin_ns_ = SaturatingAdd(origin, plan.sample_delay_ns);
  delayed_ = plan.sample_delay_ns != 0;
  next_ns_ = SaturatingAdd(begin_ns_, Interval());
  end_ns_ = plan.sample_duration_ns != 0
                ? SaturatingAdd(begin_ns_, plan.sample_duration_ns)
                : UINT64_MAX;
  return PlanResult();
}

uint64_t SdkSamples::Interval() const {
  uint64_t interval = state_->plan.sample_interval_ns;
  return interval < kShortestIntervalNs ? kShortestIntervalNs : interval;
}

// The delay is over: from now on the GPUs count.
void SdkSamples::Begin() {
  delayed_ = false;
  for (uint32_t i = 0; i < gpu_count_; ++i) {
    Gpu& gpu = gpus_[i];
    if (table_->sampler_passes[gpu.agent] == 0) continue;
    // The next due sample tries again, and counts what it cannot read.
    if (StartGpu(&gpu) != ROCATTACH_SDK_STATUS_SUCCESS) StopGpu(&gpu);
  }
}

void SdkSamples::SampleAll(RingHandle* ring) {
  for (uint32_t i = 0; i < gpu_count_; ++i) {
    Gpu& gpu = gpus_[i];
    if (table_->sampler_passes[gpu.agent] != 0) Sample(&gpu, ring);
  }
}

void SdkSamples::Finish(RingHandle* ring) {
  if (state_ == nullptr) return;
  if (!delayed_) SampleAll(ring);
  Stop();
}

void SdkSamples::Stop() {
  for (uint32_t i = 0; i < gpu_count_; ++i) StopGpu(&gpus_[i]);
  state_ = nullptr;
  table_ = nullptr;
}

uint64_t SdkSamples::Tick(uint64_t now_ns, RingHandle* ring) {
  if (state_ == nullptr) return 0;
  if (delayed_) {
    if (now_ns < begin_ns_) return begin_ns_;
    Begin();
  }
  if (now_ns < next_ns_ && now_ns < end_ns_) {
    return next_ns_ < end_ns_ ? next_ns_ : end_ns_;
  }
  SampleAll(ring);
  if (now_ns >= end_ns_) {
    Stop();
    return 0;
  }
  // Late samples are skipped: the next sample's span covers their time.
  next_ns_ = SaturatingAdd(next_ns_, Interval());
  now_ns = BootNs();
  if (next_ns_ <= now_ns) next_ns_ = SaturatingAdd(now_ns, Interval());
  return next_ns_ < end_ns_ ? next_ns_ : end_ns_;
}

void SdkSamples::Sample(Gpu* gpu, RingHandle* ring) {
  uint32_t passes = table_->sampler_passes[gpu->agent];
  uint32_t pass = table_->sampler_first[gpu->agent] + gpu->pass;
  const SdkConfig& config = parts_.configs->at(table_->config[gpu->agent][pass]);
  ring->Count(&rocattach_ring::samples_seen, uint64_t{1});
  if (!gpu->started && StartGpu(gpu) != ROCATTACH_SDK_STATUS_SUCCESS) {
    StopGpu(gpu);
    ring->Count(&rocattach_ring::samples_dropped, uint64_t{1});
    return;
  }
  size_t count = room_;
  rocattach_sdk_status status = parts_.sdk->sample_device_counting(
      gpu->context, {0}, ROCATTACH_SDK_COUNTER_FLAG_NONE, records_, &count);
  if (status == ROCATTACH_SDK_STATUS_ERROR_OUT_OF_RESOURCES && count > room_ &&
      Grow(count)) {
    count = room_;
    status = parts_.sdk->sample_device_counting(
        gpu->context, {0}, ROCATTACH_SDK_COUNTER_FLAG_NONE, records_, &count);
  }
  uint64_t end_ns = BootNs();
  if (status == ROCATTACH_SDK_STATUS_SUCCESS && count <= room_) {
    Publish(gpu, config, state_->plan.pass[pass], count, end_ns, ring);
  } else {
    ring->Count(&rocattach_ring::samples_dropped, uint64_t{1});
  }
  if (passes > 1) {
    StopGpu(gpu);
    gpu->pass = (gpu->pass + 1) % passes;
    if (StartGpu(gpu) != ROCATTACH_SDK_STATUS_SUCCESS) StopGpu(gpu);
  }
}

void SdkSamples::Publish(Gpu* gpu, const SdkConfig& config,
                         const rocattach_plan_pass& pass, size_t count, uint64_t end_ns,
                         RingHandle* ring) {
  const bool fresh = gpu->last == nullptr;
  if (fresh) {
    gpu->last = static_cast<double*>(AllocatePrivate(room_ * sizeof(double)));
  }
  struct Group {
    rocattach_sample sample;
    rocattach_values values[kMaxValueSlots];
  } group;
  CounterReducer reducer(parts_.sdk, config, nullptr);
  // The SDK lists the same instances in the same order as long as the context runs.
  bool same = !fresh && gpu->known == count;
  bool all_known = true;
  for (size_t i = 0; i < count; ++i) {
    double value = records_[i].counter_value;
    double before = same ? gpu->last[i] : 0;
    if (gpu->last != nullptr) gpu->last[i] = value;
    uint32_t place = reducer.Find(records_[i].id);
    all_known &= place != CounterReducer::kNone;
    if (place != CounterReducer::kNone) reducer.Add(place, value - before);
    records_[i].counter_value = value - before;
  }
  // Otherwise there is nothing to subtract: the values of this span are not known.
  bool whole = same || gpu->known == 0;
  gpu->known = gpu->last != nullptr ? static_cast<uint32_t>(count) : 0;
  rocattach_values head = {};
  head.kind = ROCATTACH_RECORD_VALUES;
  head.correlation_id = next_sample_id_++;
  head.plan_generation = state_->generation;
  head.pass = static_cast<uint16_t>(gpu->pass);
  head.agent_id = parts_.agents->at(gpu->agent).dictionary_id;
  head.of = ROCATTACH_RECORD_SAMPLE;
  const bool each =
      (state_->plan.record_kinds & ROCATTACH_PLAN_RECORD_INSTANCES) != 0 && all_known;
  const uint32_t instances = each ? InstancePacker::SlotsIn(count, ring->slots()) : 0;
  head.instance_slots = static_cast<uint16_t>(instances);
  uint32_t total = 0;
  uint32_t slots =
      PackValues(reducer, config, state_->plan, pass, head, group.values, &total);
  group.sample = {};
  group.sample.kind = ROCATTACH_RECORD_SAMPLE;
  group.sample.agent_id = head.agent_id;
  group.sample.pass = head.pass;
  group.sample.sample_id = head.correlation_id;
  group.sample.plan_generation = head.plan_generation;
  group.sample.begin_ns = gpu->begin_ns;
  group.sample.end_ns = end_ns;
  group.sample.values = static_cast<uint16_t>(total);
  group.sample.slots = static_cast<uint16_t>(slots);
  gpu->begin_ns = end_ns;
  InstancePacker packer(parts_.sdk, parts_.configs->dimensions(), config, nullptr,
                        state_->plan, pass);
  const auto* from = reinterpret_cast<const uint8_t*>(&group);
  const auto fill = [&](uint32_t i, void* slot) {
    if (i < 1 + slots) {
      memcpy(slot, from + size_t{i} * ROCATTACH_SLOT_BYTES, ROCATTACH_SLOT_BYTES);
    } else {
      packer.Fill(records_, count, i - 1 - slots, head.correlation_id,
                  static_cast<rocattach_instances*>(slot));
    }
  };
  if (!whole || slots == 0 || !ring->PushGroupWith(1 + slots + instances, fill)) {
    ring->Count(&rocattach_ring::samples_dropped, uint64_t{1});
  }
}

}  // namespace rocattach::collector
