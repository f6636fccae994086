#include "userspace/collector/hsa/capture.h"

#include <string.h>

namespace rocattach::collector {
namespace {

// Number of unfinished operations to look past for a finished one when
// the in-flight table is full.
constexpr uint32_t kFullPatience = 64;

}  // namespace

void Capture::Fill(const Queue& q, const hsa_kernel_dispatch_packet_t& packet,
                   uint64_t index, uint64_t now_ns, uint32_t tid,
                   const DispatchOwners& owners, rocattach_inflight* entry) {
  entry->flags = owners.flags;
  entry->tid = tid;
  entry->correlation_id = tracker_->NextCorrelation(1);
  entry->enqueue_ns = now_ns;
  rocattach_inflight_dispatch* d = &entry->u.dispatch;
  d->kernel_id = kernels_->Find(packet.kernel_object);
  d->queue_id = q.id;
  d->grid_x = packet.grid_size_x;
  d->grid_y = packet.grid_size_y;
  d->grid_z = packet.grid_size_z;
  d->workgroup_x = packet.workgroup_size_x;
  d->workgroup_y = packet.workgroup_size_y;
  d->workgroup_z = packet.workgroup_size_z;
  d->agent_id = q.agent.id;
  d->lds_bytes = packet.group_segment_size;
  d->scratch_bytes = packet.private_segment_size;
  d->iteration = owners.iteration;
  d->packet_index = index;
  d->dispatch_id = owners.dispatch_id;
}

bool Capture::Selected(const Queue& q, const hsa_kernel_dispatch_packet_t& packet,
                       DispatchOwners* owners) {
  const PlanState* state = plan();
  if (state == nullptr) return true;
  uint64_t dispatch = process_->plans.NextDispatch();
  Decision decision = process_->plans.Decide(
      state, kernels_->Find(packet.kernel_object), q.agent.id, dispatch);
  bool baseline = process_->Baseline(ROCATTACH_RECORDING_DISPATCHES);
  owners->flags = static_cast<uint16_t>(decision.flags |
                                        (baseline ? ROCATTACH_DISPATCH_BASELINE : 0u));
  owners->iteration = decision.iteration;
  owners->dispatch_id = dispatch;
  return baseline || decision.dispatch;
}

void Capture::Dispatch(Queue* q, hsa_kernel_dispatch_packet_t* packet, uint64_t index,
                       uint64_t now_ns, uint32_t tid, RingHandle* ring) {
  DispatchOwners owners;
  if (Unlikely(plan() != nullptr) && !Selected(*q, *packet, &owners)) {
    return Reuse(packet->completion_signal.handle);
  }
  if (Unlikely(SampledOut(owners, ring))) {
    return Reuse(packet->completion_signal.handle);
  }
  bool own = packet->completion_signal.handle == 0;
  uint32_t op = kNoOp;
  if (Likely(!own || (tracker_->signals().ready() && tracker_->adds_signals() &&
                      !q->has_metadata))) {
    op = tracker_->Take(&q->ops);
    if (Unlikely(op == kNoOp)) {
      tracker_->Harvest(&q->ops, Context(q, ring), 8, kFullPatience);
      op = tracker_->Take(&q->ops);
    }
  }
  if (Unlikely(op == kNoOp)) {
    Reuse(packet->completion_signal.handle);
    rocattach_inflight entry;
    Fill(*q, *packet, index, now_ns, tid, owners, &entry);
    tracker_->PublishUntimed(entry, ring);
    return;
  }
  rocattach_inflight* entry = tracker_->shared(op);
  Fill(*q, *packet, index, now_ns, tid, owners, entry);
  if (own) {
    amd_signal_t* signal = tracker_->signals().at(op);
    SignalPool::Arm(signal);
    packet->completion_signal.handle = reinterpret_cast<uint64_t>(signal);
  } else {
    entry->flags = static_cast<uint16_t>(entry->flags | ROCATTACH_DISPATCH_APP_SIGNAL);
    Op& state = tracker_->op(op);
    state.copy = false;
    state.signal = packet->completion_signal.handle;
    tracker_->app_signals().Track(op);
  }
  tracker_->Append(&q->ops, op, own ? OpKind::kOwnSignal : OpKind::kAppSignal, index,
                   HasBarrier(LoadRelaxed(&packet->header)), ring);
}

void Capture::Consumed(Queue* q, uint64_t index, uint64_t now_ns, RingHandle* ring,
                       bool named) {
  AqlPacket found;
  memcpy(&found, q->packets + (index & q->mask) * sizeof(found), sizeof(found));
  // The slot belongs to the next producer once the write index has wrapped around.
  bool intact = WriteIndex(*q) - index <= uint64_t{q->mask} + 1;
  if (!intact) {
    ring->Count(&rocattach_ring::packets_unseen, uint64_t{1});
    return;
  }
  // The packet may have run already, and left its times in the
  // signal of an earlier operation.
  Lost(found);
  // The packet processor has overwritten the type, and nothing else.
  const bool ext =
      static_cast<VendorFormat>(found.any.format) == VendorFormat::kExtKernelDispatch &&
      found.ext_dispatch.setup != 0;  // in others always 0
  const hsa_kernel_dispatch_packet_t packet =
      ext ? AsDispatch(found.ext_dispatch) : found.dispatch;
  // In all other packets at least one of these is reserved, and 0.
  bool dispatch = packet.kernel_object != 0 && packet.workgroup_size_x != 0 &&
                  packet.grid_size_x != 0;
  if (!dispatch) return;
  if (!named || kernels_->Find(packet.kernel_object) == 0) {
    // Not certainly a dispatch.
    ring->Count(&rocattach_ring::packets_unseen, uint64_t{1});
    return;
  }
  DispatchOwners owners;
  if (!Selected(*q, packet, &owners) || SampledOut(owners, ring)) return;
  rocattach_inflight entry;
  Fill(*q, packet, index, now_ns, ring->tid(), owners, &entry);
  tracker_->PublishUntimed(entry, ring);
}

}  // namespace rocattach::collector
