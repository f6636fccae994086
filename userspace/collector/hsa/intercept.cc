#include "userspace/collector/hsa/intercept.h"

#include <string.h>

namespace rocattach::collector {
namespace {

using Packet = AqlPacket;

// Slots that are left free for the runtime's retry packet and our markers.
constexpr uint64_t kMargin = 8;
// A queue in an error state consumes nothing: its producer must not wait forever.
constexpr uint64_t kMaxWaitNs = 2'000'000'000;

uint64_t SizeOf(const Queue& q) {
  return uint64_t{q.mask} + 1;
}

}  // namespace

bool InterceptCapture::Prepare(Queue* q, uint32_t packets) {
  // Entries are reused by queues of other sizes; the old memory is leaked.
  if (packets <= q->batch_packets) return true;
  uint64_t bytes = (uint64_t{packets} + Queue::kMarkers) * sizeof(Packet);
  auto* batch = static_cast<uint8_t*>(AllocatePrivate(bytes));
  if (batch == nullptr) return false;
  q->batch = batch;
  q->batch_packets = packets;
  return true;
}

// Reclaims markers that the hardware has consumed.
void InterceptCapture::CollectMarkers(Queue* q) {
  OpTracker& tracker = capture_->tracker();
  uint32_t done = 0;
  while (done < q->marker_count &&
         SignalPool::Done(tracker.signals().at(q->markers[done].op))) {
    q->confirmed = q->markers[done].end;
    ++done;
  }
  if (done == 0) return;
  TinyLockHolder hold(q->lock);
  for (uint32_t i = 0; i < done; ++i) tracker.Return(&q->ops, q->markers[i].op);
  q->marker_count -= done;
  memmove(q->markers, q->markers + done, q->marker_count * sizeof(q->markers[0]));
}

bool InterceptCapture::MakeMarker(Queue* q, void* packet) {
  OpTracker& tracker = capture_->tracker();
  if (q->marker_count == Queue::kMarkers || !tracker.signals().ready()) return false;
  q->lock.Lock();
  uint32_t op = tracker.Take(&q->ops);
  q->lock.Unlock();
  if (op == kNoOp) return false;
  amd_signal_t* signal = tracker.signals().at(op);
  SignalPool::Arm(signal);
  // Without the barrier bit and without dependencies: it completes when it is consumed.
  hsa_barrier_and_packet_t barrier;
  memset(&barrier, 0, sizeof(barrier));
  barrier.header = HSA_PACKET_TYPE_BARRIER_AND << HSA_PACKET_HEADER_TYPE;
  barrier.completion_signal.handle = reinterpret_cast<uint64_t>(signal);
  memcpy(packet, &barrier, sizeof(barrier));
  q->marked = ++q->submitted;
  q->markers[q->marker_count++] = {op, q->marked};
  return true;
}

void InterceptCapture::WaitForRoom(Queue* q, uint64_t count) {
  uint64_t limit = SizeOf(*q) - kMargin;
  uint64_t deadline = 0;
  for (;;) {
    CollectMarkers(q);
    // At most a sixteenth of the queue follows the last pending marker. A batch that
    // does not fit into an empty queue is split by the runtime: this is allowed once.
    if (q->submitted + count - q->confirmed <= limit || q->marker_count == 0) return;
    uint64_t now = BootNs();
    if (deadline == 0) deadline = now + kMaxWaitNs;
    if (now > deadline) return;
    timespec nap = {0, 20'000};
    nanosleep(&nap, nullptr);
  }
}

void InterceptCapture::Record(Queue* q, Packet* packet, uint64_t index, uint64_t now_ns,
                              RingHandle* ring) {
  const PacketView view = *packet;
  const PacketKind kind = view.kind();
  if (kind == PacketKind::kDispatch) {
    TinyLockHolder hold(q->lock);
    capture_->Dispatch(q, &packet->dispatch, index, now_ns, ring->tid(), ring);
  } else if (kind == PacketKind::kExtDispatch) {
    hsa_kernel_dispatch_packet_t dispatch = AsDispatch(packet->ext_dispatch);
    TinyLockHolder hold(q->lock);
    capture_->Dispatch(q, &dispatch, index, now_ns, ring->tid(), ring);
    packet->ext_dispatch.completion_signal = dispatch.completion_signal.handle;
  } else if (kind == PacketKind::kOpaque && view.is_pm4()) {
    // PM4 packets of another tool, which starts and reads its counters with them.
    capture_->Barrier(view);
  } else {
    capture_->Other(view, ring);
  }
}

void InterceptCapture::Handle(Queue* q, const void* packets, uint64_t count,
                              uint64_t user_index, InterceptWriter writer,
                              bool recording, RingHandle* ring) {
  bool bounded = bounded_ && SizeOf(*q) >= 4 * kMargin;
  uint64_t stride = SizeOf(*q) / Queue::kMarkers;
  if (bounded) WaitForRoom(q, count + count / stride + 1);
  // Should a runtime pass a batch larger than the queue, forward it unchanged.
  if (count > SizeOf(*q)) {
    if (recording) ring->Count(&rocattach_ring::packets_unseen, count);
    return writer(packets, count);
  }
  auto* source = static_cast<const Packet*>(packets);
  auto* batch = reinterpret_cast<Packet*>(q->batch);
  if (recording && Unlikely(!q->profiled)) {
    q->profiled = true;
    hsa_->set_profiler_enabled(reinterpret_cast<hsa_queue_t*>(q->amd), 1);
  }
  uint64_t now_ns = recording ? BootNs() : 0;
  uint64_t filled = 0;
  for (uint64_t i = 0; i < count; ++i) {
    Packet* packet = &batch[filled++];
    memcpy(packet, &source[i], sizeof(Packet));
    if (recording) {
      Record(q, packet, user_index + i, now_ns, ring);
    } else {
      capture_->Passing(*packet, ring);
    }
    ++q->submitted;
    if (bounded && q->submitted - q->marked >= stride &&
        MakeMarker(q, &batch[filled])) {
      ++filled;
    }
  }
  if (recording) {
    TinyLockHolder hold(q->lock);
    capture_->tracker().Harvest(&q->ops, capture_->Context(q, ring),
                                static_cast<uint32_t>(2 * count + 1), 0);
  }
  writer(batch, filled);
}

}  // namespace rocattach::collector
