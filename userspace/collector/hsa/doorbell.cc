#include "userspace/collector/hsa/doorbell.h"

#include <algorithm>

namespace rocattach::collector {
namespace {

// After this many packets, a ring also publishes finished dispatches: in batches, since
// reading the GPU's progress costs it and us a cache line, and more of them than
// packets have come in, so that a backlog shrinks. The worker publishes the rest.
constexpr uint32_t kPacketsPerHarvest = 16;
constexpr uint32_t kHarvestLimit = 3 * kPacketsPerHarvest;

uint32_t Tag(uint64_t index) {
  return static_cast<uint32_t>(index) + 1;
}

void SetRinger(Queue* q, uint64_t index, uint32_t tid) {
  Ringer ringer = {Tag(index), tid};
  uint64_t bits;
  __builtin_memcpy(&bits, &ringer, sizeof(bits));
  auto* slot = reinterpret_cast<uint64_t*>(&q->ringers[index % Queue::kRingers]);
  StoreRelaxed(slot, bits);
}

// The thread that rang for packet `index`; a ring for several packets counts for all.
uint32_t RingerOf(Queue* q, uint64_t index, uint32_t otherwise) {
  auto* slot = reinterpret_cast<uint64_t*>(&q->ringers[index % Queue::kRingers]);
  uint64_t bits = LoadRelaxed(slot);
  Ringer ringer;
  __builtin_memcpy(&ringer, &bits, sizeof(ringer));
  return ringer.index == Tag(index) ? ringer.tid : otherwise;
}

void LowerTo(uint64_t* counter, uint64_t value) {
  uint64_t seen = LoadRelaxed(counter);
  while (seen > value &&
         !__atomic_compare_exchange_n(counter, &seen, value, true, __ATOMIC_ACQ_REL,
                                      __ATOMIC_RELAXED)) {
  }
}

AqlPacket* PacketAt(const Queue& q, uint64_t index) {
  return reinterpret_cast<AqlPacket*>(q.packets + (index & q.mask) * sizeof(AqlPacket));
}

}  // namespace

void DoorbellCapture::Watch(Queue* q, hsa_signal_value_t value, RingHandle* ring) {
  LowerTo(&q->watched, LoadRelaxed(&q->rung));
  HandleRing(q, value, ring);
}

void DoorbellCapture::HandleRing(Queue* q, hsa_signal_value_t value, RingHandle* ring) {
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
    Pass(*q, index);
    hsa_->signal_store_screlease(q->doorbell, value);
    return;
  }
  SetRinger(q, index, ring->tid());
  RaiseTo(&q->rung, index + 1);
  if (!q->lock.TryLock()) {
    // 1. We raised `rung`. 2. Our failed try read the lock before the holder's unlock,
    // which is a full fence. 3. After that the holder reads `rung`, sees our raise, and
    // compares it with the `rung` that was last served, not with its value when the
    // lock was taken, which may have been between our raise and our try.
    return;
  }
  // The queue was lost after it was found: this thread's ring must not be withheld.
  if (Unlikely(q->lost)) {
    Serve(q, ring);
    q->lock.UnlockFence();
    return ServeMissed(q, ring);
  }
  bool forward = Look(q, ring);
  const uint64_t end = q->next;
  OpTracker& tracker = capture_->tracker();
  const bool harvest = end - q->harvested >= kPacketsPerHarvest;
  // The doorbell is a register, or a cache line that the packet processor polls: the
  // unlock, a full fence, would wait for the store. After the unlock, values may arrive
  // in another order, which queues of several producers allow.
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
    // If we are the worker, another thread may have destroyed the queue by now.
    const bool gone = q->closing || q->amd == nullptr;
    if (Likely(!gone)) Serve(q, ring);
    q->lock.UnlockFence();
    if (gone) return;
  }
}

void DoorbellCapture::Serve(Queue* q, RingHandle* ring) {
  if (Unlikely(q->lost)) return PassOn(q);
  if (Look(q, ring)) Forward(*q, q->next);
}

// Otherwise a producer that has rung for these packets would wait for them in vain.
void DoorbellCapture::PassOn(Queue* q) {
  StoreRelaxed(&q->deferred, 0u);
  const uint64_t rung = LoadAcquire(&q->rung);
  StoreRelaxed(&q->looked, rung);
  if (rung <= q->forwarded) return;
  q->forwarded = rung;
  Forward(*q, rung);
}

bool DoorbellCapture::Look(Queue* q, RingHandle* ring) {
  uint64_t limit = LoadAcquire(&q->rung);
  StoreRelaxed(&q->looked, limit);
  if (Unlikely(!q->profiled) && Recorded(*q, q->next)) {
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

void DoorbellCapture::Record(Queue* q, AqlPacket* packet, const PacketView& seen,
                             uint64_t index, uint64_t now_ns, RingHandle* ring) {
  const uint32_t tid = RingerOf(q, index, ring->tid());
  if (Likely(&*seen == packet && seen.kind() == PacketKind::kDispatch)) {
    return capture_->Dispatch(q, &packet->dispatch, index, now_ns, tid, ring);
  }
  hsa_kernel_dispatch_packet_t dispatch = seen.kind() == PacketKind::kExtDispatch
                                              ? AsDispatch(seen->ext_dispatch)
                                              : seen->dispatch;
  const uint64_t signal = dispatch.completion_signal.handle;
  capture_->Dispatch(q, &dispatch, index, now_ns, tid, ring);
  if (dispatch.completion_signal.handle != signal) {
    // In both formats the signal is the last word.
    StoreRelaxed(&packet->words[7], dispatch.completion_signal.handle);
  }
}

void DoorbellCapture::Scan(Queue* q, uint64_t limit, uint64_t now_ns,
                           RingHandle* ring) {
  uint64_t size = uint64_t{q->mask} + 1;
  // `next` is also read without the lock, by Ring().
  for (; q->next < limit; StoreRelaxed(&q->next, q->next + 1)) {
    uint64_t index = q->next;
    AqlPacket* packet = PacketAt(*q, index);
    AqlPacket copy;
    if (Unlikely(q->in_device)) ReadOnce(packet, &copy);
    const PacketView seen = Unlikely(q->in_device) ? copy : *packet;
    const uint8_t type = seen.type();
    // An invalid header belongs to a packet that is not yet written or already
    // consumed. A valid one may be that of packet `index + size`, but then its producer
    // raised the write index before it wrote the header that we have just read, and
    // waited for the read index before that.
    if (Unlikely(type == HSA_PACKET_TYPE_INVALID || WriteIndex(*q) - index > size)) {
      if (ReadIndex(*q) > index) {
        if (!Recorded(*q, index)) {
          capture_->Lost(seen);
          if (Interruption() != 0)
            ring->Count(&rocattach_ring::packets_unseen, uint64_t{1});
          continue;
        }
        capture_->Consumed(q, index, now_ns, ring);
        continue;
      }
      if (type == HSA_PACKET_TYPE_INVALID) break;
    }
    const PacketKind kind = seen.kind();
    if (!Recorded(*q, index)) {
      capture_->Passing(seen, ring);
    } else if (kind == PacketKind::kDispatch || kind == PacketKind::kExtDispatch) {
      Record(q, packet, seen, index, now_ns, ring);
    } else {
      capture_->Other(seen, ring);
    }
  }
  // Otherwise signals stored in the ring are not ordered before the doorbell.
  if (Unlikely(q->in_device)) _mm_sfence();
}

void DoorbellCapture::Pass(const Queue& q, uint64_t index) {
  const AqlPacket* packet = PacketAt(q, index);
  AqlPacket copy;
  if (q.in_device) {
    ReadOnce(packet, &copy);
    packet = &copy;
  }
  const PacketView seen = *packet;
  if (seen.type() != HSA_PACKET_TYPE_INVALID) capture_->Barrier(seen);
}

bool DoorbellCapture::CatchUp(Queue* q, RingHandle* ring, bool named) {
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
    capture_->Consumed(q, q->next, now_ns, ring, named);
  }
  if (q->forwarded < q->next) q->forwarded = q->next;
  return true;
}

// The packets' slots may have been rewritten: which kinds they were is not known.
void DoorbellCapture::CountInterrupted(Queue* q, RingHandle* ring) {
  const uint32_t stop = LoadRelaxed(&q->idled);
  if (stop <= Queue::kIdled) return;
  StoreRelaxed(&q->idled, Queue::kIdled);
  if (recording_ == nullptr || !recording_->IsMissed(stop)) return;
  const uint64_t end = LoadAcquire(&q->idle_end);
  if (end <= q->next) return;
  ring->Count(&rocattach_ring::packets_unseen, end - q->next);
  StoreRelaxed(&q->next, end);
  if (q->next > q->forwarded) q->forwarded = q->next;
}

void DoorbellCapture::Skip(Queue* q, bool count, RingHandle* ring) {
  CountInterrupted(q, ring);
  if (!count || LoadRelaxed(&q->idled) != 0) {
    RaiseTo(&q->idle_end, WriteIndex(*q));
    return StoreRelaxed(&q->idled, Queue::kIdled);
  }
  CatchUp(q, ring, /*named=*/false);
  const uint64_t written = WriteIndex(*q);
  uint64_t missed = 0;
  for (; q->next < written; StoreRelaxed(&q->next, q->next + 1)) {
    AqlPacket packet;
    ReadOnce(PacketAt(*q, q->next), &packet);
    // One that has not been written yet may become a dispatch.
    const PacketView seen = packet;
    const bool written_yet = seen.type() != HSA_PACKET_TYPE_INVALID;
    if (!written_yet || seen.kind() != PacketKind::kOther) ++missed;
  }
  ring->Count(&rocattach_ring::packets_unseen, missed);
  if (q->next > q->forwarded) q->forwarded = q->next;
  StoreRelaxed(&q->resumed, q->next);
}

void DoorbellCapture::Resume(Queue* q, uint64_t index, RingHandle* ring) {
  q->lock.Lock();
  CountInterrupted(q, ring);
  if (LoadRelaxed(&q->idled) != 0) {
    StoreRelaxed(&q->idled, 0u);
    StoreRelaxed(&q->deferred, 0u);
    // This ring may be for several packets: for all that have not been rung for.
    const uint64_t consumed = ReadIndex(*q);
    const uint64_t begin =
        std::max({q->next, LoadAcquire(&q->idle_end), std::min(consumed, index)});
    if (Unlikely(capture_->tracker().app_signals().tracked() != 0) &&
        begin - consumed <= uint64_t{q->mask} + 1) {
      for (uint64_t passed = consumed; passed < begin; ++passed) Pass(*q, passed);
    }
    StoreRelaxed(&q->next, begin);
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
