#include "userspace/collector/hsa/copies.h"

namespace rocattach::collector {
namespace {

constexpr uint32_t kExitPatienceMsec = 50;
// Number of unfinished copies to look past.
constexpr uint32_t kPatience = 64;

uint16_t Direction(bool src_known, bool src_gpu, bool dst_known, bool dst_gpu) {
  if (!src_known || !dst_known) return ROCATTACH_COPY_UNKNOWN;
  if (src_gpu) {
    return dst_gpu ? ROCATTACH_COPY_DEVICE_TO_DEVICE : ROCATTACH_COPY_DEVICE_TO_HOST;
  }
  return dst_gpu ? ROCATTACH_COPY_HOST_TO_DEVICE : ROCATTACH_COPY_HOST_TO_HOST;
}

// Flags that say what a copy is recorded for; needed only if there is a plan.
uint16_t Owners(const HsaRecording& recording) {
  const PlanState* state = recording.plan();
  if (state == nullptr) return 0;
  uint32_t flags =
      recording.Baseline(ROCATTACH_RECORDING_COPIES) ? ROCATTACH_COPY_BASELINE : 0u;
  if (recording.Planned(ROCATTACH_PLAN_RECORD_COPIES)) {
    flags |= ROCATTACH_COPY_SELECTED |
             ROCATTACH_PLAN_TAG(LoadRelaxed(&state->generation)) << 9;
  }
  return static_cast<uint16_t>(flags);
}

}  // namespace

rocattach_copy Copies::Describe(hsa_agent_t dst_agent, hsa_agent_t src_agent,
                                const void* dst, const void* src, uint64_t bytes,
                                RingHandle* ring) {
  rocattach_copy copy = {};
  copy.kind = ROCATTACH_RECORD_COPY;
  copy.flags = Owners(*recording_);
  const Agent* to = agents_->Find(dst_agent);
  const Agent* from = agents_->Find(src_agent);
  copy.dst_agent_id = to == nullptr ? 0 : to->id;
  copy.src_agent_id = from == nullptr ? 0 : from->id;
  copy.direction = Direction(from != nullptr, from != nullptr && from->gpu,
                             to != nullptr, to != nullptr && to->gpu);
  copy.engine = ROCATTACH_ENGINE_ASYNC;
  copy.bytes = bytes;
  copy.src_address = reinterpret_cast<uint64_t>(src);
  copy.dst_address = reinterpret_cast<uint64_t>(dst);
  copy.tid = ring->tid();
  copy.correlation_id = tracker_->NextCorrelation(1);
  copy.enqueue_ns = BootNs();
  return copy;
}

void Copies::DescribePointers(const void* dst, const void* src, rocattach_copy* copy) {
  const void* pointers[2] = {src, dst};
  uint16_t ids[2] = {0, 0};
  bool gpu[2] = {false, false};
  for (int i = 0; i < 2; ++i) {
    hsa_amd_pointer_info_t info = {};
    info.size = sizeof(info);
    if (hsa_->pointer_info(pointers[i], &info, nullptr, nullptr, nullptr) !=
            HSA_STATUS_SUCCESS ||
        info.type == HSA_EXT_POINTER_TYPE_UNKNOWN) {
      continue;  // plain host memory
    }
    const Agent* owner = agents_->Find(info.agentOwner);
    if (owner == nullptr) continue;
    ids[i] = owner->id;
    gpu[i] = owner->gpu;
  }
  copy->src_agent_id = ids[0];
  copy->dst_agent_id = ids[1];
  copy->direction = Direction(true, gpu[0], true, gpu[1]);
}

uint32_t Copies::Begin(const rocattach_copy& copy, hsa_signal_t completion,
                       RingHandle* ring) {
  ring->Count(&rocattach_ring::copies_seen, uint64_t{1});
  TinyLockHolder hold(lock_);
  const uint32_t op = Track(copy, completion, /*group=*/0, ring);
  if (op == kNoOp) tracker_->app_signals().Reused(completion.handle);
  return op;
}

uint32_t Copies::Track(const rocattach_copy& copy, hsa_signal_t completion,
                       uint64_t group, RingHandle* ring) {
  if (completion.handle == 0) return kNoOp;
  if (!profiled_) {
    profiled_ = true;
    hsa_->async_copy_enable(true);
  }
  uint32_t op = tracker_->Take(&list_);
  if (op == kNoOp) return kNoOp;
  PackCopy(copy, tracker_->shared(op));
  Op& state = tracker_->op(op);
  state.copy = true;
  state.signal = completion.handle;
  tracker_->app_signals().Track(op, group);
  tracker_->Append(&list_, op, OpKind::kCopy, 0, /*barrier=*/false, ring);
  return op;
}

void Copies::Submitted(uint32_t op, hsa_status_t status, const rocattach_copy& copy,
                       RingHandle* ring) {
  if (Unlikely(status != HSA_STATUS_SUCCESS)) {
    ring->Count(&rocattach_ring::copies_seen, static_cast<uint64_t>(-1));
    if (op == kNoOp) return;
    TinyLockHolder hold(lock_);
    tracker_->Discard(&list_, op, ring);
    return;
  }
  if (Unlikely(op == kNoOp)) {
    PublishUntimed(copy, ring);
    return;
  }
  Harvest(ring);
}

void Copies::PublishUntimed(const rocattach_copy& copy, RingHandle* ring) {
  rocattach_copy record = copy;
  record.flags = static_cast<uint16_t>(record.flags | ROCATTACH_DISPATCH_UNTIMED);
  ring->PushCopy(record);
}

uint32_t Copies::KnownOps(const CopyOp* ops, uint32_t count) const {
  return KnownCopyOps(ops, count, [this](hsa_agent_t agent) {
    return agents_->Find(agent) != nullptr;
  });
}

void Copies::BeginBatch(Batch* batch, RingHandle* ring) {
  batch->known = KnownOps(batch->ops, batch->count);
  TinyLockHolder hold(lock_);
  for (uint32_t i = 0; i < batch->known; ++i) TrackOp(batch->ops[i], batch, ring);
}

void Copies::TrackOp(const CopyOp& op, Batch* batch, RingHandle* ring) {
  if (op.completion.handle == 0) return;
  uint64_t group = 0;
  bool left_out = false;
  ForEachCopy(op, [&](const CopyEntry& c) {
    left_out |= batch->full || !TrackEntry(op, c, &group, batch, ring);
  });
  // If one of the operation's copies is tracked, the signal is known to be in use.
  if (left_out && group == 0) tracker_->app_signals().Reused(op.completion.handle);
}

bool Copies::TrackEntry(const CopyOp& op, const CopyEntry& entry, uint64_t* group,
                        Batch* batch, RingHandle* ring) {
  const rocattach_copy copy = Describe(entry.dst_agent, entry.src_agent, entry.dst,
                                       entry.src, entry.bytes, ring);
  const uint64_t of_op = *group == 0 ? copy.correlation_id : *group;
  ring->Count(&rocattach_ring::copies_seen, uint64_t{1});
  if (Track(copy, op.completion, of_op, ring) == kNoOp) {
    // It is counted again once it is known to have been submitted.
    ring->Count(&rocattach_ring::copies_seen, static_cast<uint64_t>(-1));
    batch->full = true;
    return false;
  }
  *group = of_op;
  ++batch->tracked;
  if (batch->first_group == 0) batch->first_group = of_op;
  batch->last_group = of_op;
  return true;
}

void Copies::BatchSubmitted(const Batch& batch, hsa_status_t status, RingHandle* ring) {
  if (Unlikely(status != HSA_STATUS_SUCCESS)) {
    if (batch.tracked == 0) return;
    TinyLockHolder hold(lock_);
    const uint64_t gone =
        tracker_->DiscardGroups(&list_, batch.first_group, batch.last_group, ring);
    ring->Count(&rocattach_ring::copies_seen, ~gone + 1);
    return;
  }
  uint64_t tracked = batch.tracked;
  for (uint32_t i = 0; i < batch.known; ++i) {
    const bool has_signal = batch.ops[i].completion.handle != 0;
    ForEachCopy(batch.ops[i], [&](const CopyEntry& c) {
      if (has_signal && tracked != 0) {
        --tracked;
        return;
      }
      ring->Count(&rocattach_ring::copies_seen, uint64_t{1});
      PublishUntimed(Describe(c.dst_agent, c.src_agent, c.dst, c.src, c.bytes, ring),
                     ring);
    });
  }
  ring->Count(&rocattach_ring::packets_unseen, uint64_t{batch.count - batch.known});
  Harvest(ring);
}

void Copies::Done(rocattach_copy* copy, RingHandle* ring) {
  ring->Count(&rocattach_ring::copies_seen, uint64_t{1});
  ring->PushCopy(*copy);
}

void Copies::Harvest(RingHandle* ring) {
  if (LoadRelaxed(&list_.count) == 0 || !lock_.TryLock()) return;
  tracker_->Harvest(&list_, Context(ring), UINT32_MAX, kPatience);
  lock_.Unlock();
}

void Copies::HarvestSeen(RingHandle* ring) {
  if (!patience_.Lock(&lock_)) return;
  tracker_->Harvest(&list_, Context(ring), UINT32_MAX, kPatience);
  lock_.Unlock();
}

void Copies::HarvestAll(RingHandle* ring) {
  if (!lock_.LockFor(kExitPatienceMsec)) return;
  tracker_->Harvest(&list_, Context(ring), UINT32_MAX, UINT32_MAX);
  lock_.Unlock();
}

void Copies::PublishUnfinished(RingHandle* ring) {
  if (!lock_.LockFor(kExitPatienceMsec)) return;
  tracker_->PublishUnfinished(&list_, Context(ring));
  lock_.Unlock();
}

void Copies::LoseProfiling() {
  TinyLockHolder hold(lock_);
  profiled_ = false;
}

bool Copies::AppEnables(bool enable, bool recording) {
  TinyLockHolder hold(lock_);
  if (!enable && recording && profiled_) return false;
  // The application may set this at any time, so the next recorded copy checks it
  // again.
  if (!enable) profiled_ = false;
  return true;
}

}  // namespace rocattach::collector
