#include "userspace/collector/intercept.h"

#include <string.h>

namespace rocattach::collector {
namespace {

// Slots that are left free for our own markers and the runtime's retry packet.
constexpr uint64_t kMargin = 8;
// A queue in an error state never consumes anything: give up holding its producer.
constexpr uint64_t kMaxWaitNs = 2'000'000'000;

struct BarrierPacket {
  hsa_barrier_and_packet_t packet;
};

BarrierPacket MakeMarker(amd_signal_t* signal) {
  BarrierPacket barrier;
  memset(&barrier, 0, sizeof(barrier));
  // Without the barrier bit and without dependencies: it completes when it is consumed.
  barrier.packet.header = HSA_PACKET_TYPE_BARRIER_AND << HSA_PACKET_HEADER_TYPE;
  barrier.packet.completion_signal.handle = reinterpret_cast<uint64_t>(signal);
  return barrier;
}

}  // namespace

void InterceptCapture::Bound(Queue* q, uint64_t count, InterceptWriter writer) {
  uint64_t size = uint64_t{q->mask} + 1;
  OpTracker& tracker = capture_->tracker();
  if (size < 4 * kMargin || !tracker.signals().ready()) return;
  uint64_t deadline = 0;
  for (;;) {
    if (q->marker != kNoOp && SignalPool::Done(tracker.signals().at(q->marker))) {
      q->confirmed = q->marker_at;
      q->lock.Lock();
      tracker.op(q->marker).next = q->ops.free_head;
      q->ops.free_head = q->marker;
      ++q->ops.free_count;
      q->lock.Unlock();
      q->marker = kNoOp;
    }
    bool fits = q->submitted + count - q->confirmed <= size - kMargin;
    if (q->marker == kNoOp && (!fits || q->submitted - q->confirmed >= size / 8)) {
      q->lock.Lock();
      uint32_t marker = tracker.Take(&q->ops);
      q->lock.Unlock();
      if (marker == kNoOp) return;
      SignalPool::Arm(tracker.signals().at(marker));
      BarrierPacket barrier = MakeMarker(tracker.signals().at(marker));
      writer(&barrier, 1);
      q->marker = marker;
      q->marker_at = ++q->submitted;
    }
    if (fits) return;
    uint64_t now = BootNs();
    if (deadline == 0) deadline = now + kMaxWaitNs;
    if (now > deadline) return;
    timespec nap = {0, 20'000};
    nanosleep(&nap, nullptr);
  }
}

void InterceptCapture::Handle(Queue* q, const void* packets, uint64_t count,
                              uint64_t user_index, InterceptWriter writer,
                              bool recording, RingHandle* ring) {
  auto* source = static_cast<const hsa_kernel_dispatch_packet_t*>(packets);
  uint64_t now_ns = recording ? BootNs() : 0;
  hsa_kernel_dispatch_packet_t chunk[kChunk];
  for (uint64_t done = 0; done < count;) {
    uint64_t n = count - done < kChunk ? count - done : kChunk;
    if (bounded_) Bound(q, n, writer);
    memcpy(chunk, source + done, n * sizeof(chunk[0]));
    if (recording) {
      q->lock.Lock();
      if (Unlikely(!q->profiled)) {
        q->profiled = true;
        hsa_->set_profiler_enabled(reinterpret_cast<hsa_queue_t*>(q->amd), 1);
      }
      for (uint64_t i = 0; i < n; ++i) {
        if (PacketType(chunk[i].header) == HSA_PACKET_TYPE_KERNEL_DISPATCH) {
          capture_->Dispatch(q, &chunk[i], user_index + done + i, now_ns, ring->tid(),
                             ring);
        } else {
          capture_->Barrier(chunk[i].completion_signal.handle);
        }
      }
      capture_->tracker().Harvest(&q->ops, capture_->Context(q, ring),
                                  static_cast<uint32_t>(2 * n + 1), 0);
      q->lock.Unlock();
    }
    q->submitted += n;
    writer(chunk, n);
    done += n;
  }
}

}  // namespace rocattach::collector
