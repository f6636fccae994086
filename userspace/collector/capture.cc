#include "userspace/collector/capture.h"

#include <string.h>

namespace rocattach::collector {
namespace {

// With a full in-flight table, how many unfinished operations to look past for a
// finished one.
constexpr uint32_t kFullPatience = 64;

}  // namespace

void Capture::Fill(const Queue& q, const hsa_kernel_dispatch_packet_t& packet,
                   uint64_t index, uint64_t now_ns, uint32_t tid,
                   rocattach_dispatch* r) {
  r->kind = ROCATTACH_RECORD_DISPATCH;
  r->flags = 0;
  r->kernel_id = kernels_->Find(packet.kernel_object);
  r->correlation_id = tracker_->NextCorrelation(1);
  r->enqueue_ns = now_ns;
  r->start_ns = 0;
  r->end_ns = 0;
  r->queue_id = q.id;
  r->tid = tid;
  r->grid_x = packet.grid_size_x;
  r->grid_y = packet.grid_size_y;
  r->grid_z = packet.grid_size_z;
  r->workgroup_x = packet.workgroup_size_x;
  r->workgroup_y = packet.workgroup_size_y;
  r->workgroup_z = packet.workgroup_size_z;
  r->agent_id = q.agent.id;
  r->lds_bytes = packet.group_segment_size;
  r->scratch_bytes = packet.private_segment_size;
  r->iteration = 0;
  r->packet_index = index;
  r->dispatch_id = 0;
}

void Capture::Dispatch(Queue* q, hsa_kernel_dispatch_packet_t* packet, uint64_t index,
                       uint64_t now_ns, uint32_t tid, RingHandle* ring) {
  ring->Count(&rocattach_ring::dispatches_seen, uint64_t{1});
  bool own = packet->completion_signal.handle == 0;
  uint32_t op = kNoOp;
  if (Likely(!own || tracker_->signals().ready())) {
    op = tracker_->Take(&q->ops);
    if (Unlikely(op == kNoOp)) {
      tracker_->Harvest(&q->ops, Context(q, ring), 8, kFullPatience);
      op = tracker_->Take(&q->ops);
    }
  }
  if (Unlikely(op == kNoOp)) {
    rocattach_dispatch record;
    Fill(*q, *packet, index, now_ns, tid, &record);
    tracker_->PublishUntimed(&record, ring);
    return;
  }
  rocattach_dispatch* record = &tracker_->shared(op)->dispatch;
  Fill(*q, *packet, index, now_ns, tid, record);
  Op& state = tracker_->op(op);
  if (own) {
    amd_signal_t* signal = tracker_->signals().at(op);
    SignalPool::Arm(signal);
    state.kind = OpKind::kOwnSignal;
    packet->completion_signal.handle = reinterpret_cast<uint64_t>(signal);
  } else {
    record->flags = ROCATTACH_DISPATCH_APP_SIGNAL;
    state.kind = OpKind::kAppSignal;
    state.signal = packet->completion_signal.handle;
    tracker_->app_signals().Track(op);
  }
  tracker_->Append(&q->ops, op, ring);
}

void Capture::Consumed(Queue* q, uint64_t index, uint64_t now_ns, RingHandle* ring) {
  hsa_kernel_dispatch_packet_t packet;
  memcpy(&packet, q->packets + (index & q->mask) * sizeof(packet), sizeof(packet));
  // The slot is the next producer's once the write index has gone once around.
  bool intact = WriteIndex(*q) - index <= uint64_t{q->mask} + 1;
  if (!intact) {
    ring->Count(&rocattach_ring::packets_unseen, uint64_t{1});
    return;
  }
  bool dispatch = kernels_->Find(packet.kernel_object) != 0 &&
                  packet.workgroup_size_x != 0 && packet.grid_size_x != 0;
  if (!dispatch) return;  // a barrier, or a kernel that no executable declared
  ring->Count(&rocattach_ring::dispatches_seen, uint64_t{1});
  rocattach_dispatch record;
  Fill(*q, packet, index, now_ns, ring->tid(), &record);
  tracker_->PublishUntimed(&record, ring);
}

}  // namespace rocattach::collector
