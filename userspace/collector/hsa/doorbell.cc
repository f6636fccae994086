#include "userspace/collector/hsa/doorbell.h"

namespace rocattach::collector {
namespace {

// After this many packets, a ring also publishes finished dispatches: in batches, since
// reading the GPU's progress costs it and us a cache line, and more than have come in,
// so that a backlog shrinks. The worker publishes the rest.
constexpr uint32_t kPacketsPerHarvest = 16;
constexpr uint32_t kHarvestLimit = 3 * kPacketsPerHarvest;

uint32_t Tag(uint64_t index) {
  return static_cast<uint32_t>(index) + 1;
}

void NoteRinger(Queue* q, uint64_t index, uint32_t tid) {
  Ringer ringer = {Tag(index), tid};
  uint64_t bits;
  __builtin_memcpy(&bits, &ringer, sizeof(bits));
  auto* slot = reinterpret_cast<uint64_t*>(&q->ringers[index % Queue::kRingers]);
  StoreRelaxed(slot, bits);
}

// Who rang for packet `index`; a ring for several packets counts for all of them.
uint32_t RingerOf(Queue* q, uint64_t index, uint32_t otherwise) {
  auto* slot = reinterpret_cast<uint64_t*>(&q->ringers[index % Queue::kRingers]);
  uint64_t bits = LoadRelaxed(slot);
  Ringer ringer;
  __builtin_memcpy(&ringer, &bits, sizeof(ringer));
  return ringer.index == Tag(index) ? ringer.tid : otherwise;
}

void RaiseTo(uint64_t* counter, uint64_t value) {
  uint64_t seen = LoadRelaxed(counter);
  while (seen < value &&
         !__atomic_compare_exchange_n(counter, &seen, value, true, __ATOMIC_ACQ_REL,
                                      __ATOMIC_RELAXED)) {
  }
}

}  // namespace

void DoorbellCapture::Ring(Queue* q, hsa_signal_value_t value, RingHandle* ring) {
  auto index = static_cast<uint64_t>(value);
  // Not a packet index of this queue, so not tracked.
  if (Unlikely(index - LoadRelaxed(&q->next) > 2 * (uint64_t{q->mask} + 1) &&
               index + 1 > WriteIndex(*q))) {
    hsa_->signal_store_screlease(q->doorbell, value);
    return;
  }
  if (Unlikely(LoadRelaxed(&q->idled) != 0)) Resume(q, index, ring);
  if (Unlikely(index < LoadRelaxed(&q->resumed))) {
    // Recording began between two producers' rings, and this is the later one: the GPU
    // was rung past this packet before it was valid, and must be rung again.
    hsa_->signal_store_screlease(q->doorbell, value);
    return;
  }
  NoteRinger(q, index, ring->tid());
  RaiseTo(&q->rung, index + 1);
  if (!q->lock.TryLock()) {
    // 1. We raised `rung`. 2. Our failed try read the lock before the holder's unlock,
    // which is a full fence. 3. After that the holder reads `rung`, sees our raise, and
    // compares it with the `rung` that was last served, not with its value when the
    // lock was taken, which may have been between our raise and our try.
    return;
  }
  bool forward = Look(q, ring);
  const uint64_t end = q->next;
  OpTracker& tracker = capture_->tracker();
  const bool harvest = end - q->harvested >= kPacketsPerHarvest;
  // The packet processor polls the doorbell's line, or it is a register: the unlock, a
  // full fence, would wait for the store. After the unlock, values may arrive in
  // another order, which queues of several producers allow.
  if (forward && (harvest || !q->many_producers)) {
    Forward(*q, end);
    forward = false;
  }
  if (harvest) {
    q->harvested = end;
    tracker.HarvestConsumed(&q->ops, capture_->Context(q, ring), ReadIndex(*q),
                            kHarvestLimit);
  }
  tracker.PrefetchNext(q->ops);
  q->lock.UnlockFence();
  // The application is inside its own ring, so it does not destroy the queue.
  if (forward) Forward(*q, end);
  ServeMissed(q, ring);
}

void DoorbellCapture::ServeMissed(Queue* q, RingHandle* ring) {
  while (Unlikely(Unseen(*q))) {
    if (!q->lock.TryLock()) return;
    // If we are the worker, another thread may have destroyed it since our unlock.
    const bool gone = q->closing || q->amd == nullptr;
    if (Likely(!gone)) Serve(q, ring);
    q->lock.UnlockFence();
    if (gone) return;
  }
}

void DoorbellCapture::Serve(Queue* q, RingHandle* ring) {
  if (Look(q, ring)) Forward(*q, q->next);
}

bool DoorbellCapture::Look(Queue* q, RingHandle* ring) {
  uint64_t limit = LoadAcquire(&q->rung);
  StoreRelaxed(&q->looked, limit);
  if (Unlikely(!q->profiled)) {
    q->profiled = true;
    hsa_->set_profiler_enabled(reinterpret_cast<hsa_queue_t*>(q->amd), 1);
  }
  if (q->next < limit) Scan(q, limit, BootNs(), ring);
  const bool forward = q->next > q->forwarded;
  if (forward) q->forwarded = q->next;
  bool waiting = q->next < limit && q->next < WriteIndex(*q);
  if (Unlikely(waiting != (LoadRelaxed(&q->deferred) != 0))) {
    StoreRelaxed(&q->deferred, waiting ? 1u : 0u);
  }
  return forward;
}

void DoorbellCapture::Scan(Queue* q, uint64_t limit, uint64_t now_ns,
                           RingHandle* ring) {
  uint64_t size = uint64_t{q->mask} + 1;
  // `next` is also read without the lock, by Ring().
  for (; q->next < limit; StoreRelaxed(&q->next, q->next + 1)) {
    uint64_t index = q->next;
    auto* packet = reinterpret_cast<hsa_kernel_dispatch_packet_t*>(
        q->packets + (index & q->mask) * sizeof(hsa_kernel_dispatch_packet_t));
    uint8_t type = PacketType(LoadAcquire(&packet->header));
    // An invalid header belongs to a packet that is not yet written or already
    // consumed. A valid one may be that of packet `index + size`, but then its producer
    // raised the write index before it wrote the header that we have just read, and
    // waited for the read index before that.
    if (Unlikely(type == HSA_PACKET_TYPE_INVALID || WriteIndex(*q) - index > size)) {
      if (ReadIndex(*q) > index) {
        capture_->Consumed(q, index, now_ns, ring);
        continue;
      }
      if (type == HSA_PACKET_TYPE_INVALID) return;
    }
    if (type == HSA_PACKET_TYPE_KERNEL_DISPATCH) {
      capture_->Dispatch(q, packet, index, now_ns, RingerOf(q, index, ring->tid()),
                         ring);
    } else {
      // All packet types have their completion signal in the last eight bytes.
      capture_->Barrier(packet->completion_signal.handle);
    }
  }
}

bool DoorbellCapture::CatchUp(Queue* q, RingHandle* ring) {
  uint64_t consumed = ReadIndex(*q);
  if (consumed <= q->next || LoadRelaxed(&q->idled) != 0) return false;
  uint64_t now_ns = BootNs();
  uint64_t size = uint64_t{q->mask} + 1;
  uint64_t written = WriteIndex(*q);
  if (written > size && written - size > q->next) {
    uint64_t gone = written - size < consumed ? written - size : consumed;
    if (gone > q->next) {
      ring->Count(&rocattach_ring::packets_unseen, gone - q->next);
      StoreRelaxed(&q->next, gone);
    }
  }
  for (; q->next < consumed; StoreRelaxed(&q->next, q->next + 1)) {
    capture_->Consumed(q, q->next, now_ns, ring);
  }
  if (q->forwarded < q->next) q->forwarded = q->next;
  return true;
}

void DoorbellCapture::Resume(Queue* q, uint64_t index, RingHandle* ring) {
  q->lock.Lock();
  if (LoadRelaxed(&q->idled) != 0) {
    StoreRelaxed(&q->idled, 0u);
    StoreRelaxed(&q->deferred, 0u);
    if (index > q->next) StoreRelaxed(&q->next, index);
    if (q->next > q->forwarded) q->forwarded = q->next;
    StoreRelaxed(&q->resumed, q->next);
  }
  Leave(q, ring);
}

void DoorbellCapture::Flush(Queue* q) {
  do {
    q->lock.Lock();
    StoreRelaxed(&q->deferred, 0u);
    const uint64_t rung = LoadAcquire(&q->rung);
    StoreRelaxed(&q->looked, rung);
    if (rung > q->forwarded) {
      q->forwarded = rung;
      Forward(*q, rung);
    }
    q->lock.UnlockFence();
  } while (Unseen(*q));
}

}  // namespace rocattach::collector
