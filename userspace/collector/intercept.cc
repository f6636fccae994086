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

// Takes back markers that the hardware has consumed.
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

bool InterceptCapture::PlaceMarker(Queue* q, InterceptWriter writer) {
  OpTracker& tracker = capture_->tracker();
  q->lock.Lock();
  uint32_t op = tracker.Take(&q->ops);
  q->lock.Unlock();
  if (op == kNoOp) return false;
  SignalPool::Arm(tracker.signals().at(op));
  BarrierPacket barrier = MakeMarker(tracker.signals().at(op));
  writer(&barrier, 1);
  q->marked = ++q->submitted;
  q->markers[q->marker_count++] = {op, q->marked};
  return true;
}

void InterceptCapture::Bound(Queue* q, uint64_t count, InterceptWriter writer) {
  uint64_t size = uint64_t{q->mask} + 1;
  if (size < 4 * kMargin || !capture_->tracker().signals().ready()) return;
  uint64_t deadline = 0;
  for (;;) {
    CollectMarkers(q);
    bool fits = q->submitted + count - q->confirmed <= size - kMargin;
    // A marker behind everything is needed only where the newest one is far back.
    bool wanted = q->submitted - q->marked >= size / Queue::kMarkers ||
                  (!fits && q->submitted != q->marked);
    if (wanted && q->marker_count < Queue::kMarkers && !PlaceMarker(q, writer)) return;
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
