// Captures dispatches when the application rings a doorbell.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_DOORBELL_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_DOORBELL_H_

#include <algorithm>

#include "userspace/collector/common/ring.h"
#include "userspace/collector/hsa/capture.h"
#include "userspace/collector/hsa/functions.h"
#include "userspace/collector/hsa/queue.h"
#include "userspace/collector/hsa/recording.h"

namespace rocattach::collector {

// Between writing a packet and ringing the doorbell, the packet belongs to the
// producer, so it is read then and, if necessary, given a completion signal. Producers
// that share a queue ring in any order:
//   1. A writes packet 5 and rings 5, while packet 4 is reserved by B but not yet
//      valid.
//   2. If the ring were forwarded unchanged, the GPU would run packet 4 as soon as B
//      makes it valid, before B's ring lets us capture it.
//   3. So only the contiguous valid prefix is rung for, and B's ring covers both.
// If no ring ever comes for packet 4 (its producer writes the doorbell register
// itself), the worker checks again and forwards what has become valid.
class DoorbellCapture {
 public:
  // Without a `recording`, Ring() and Watch() alone decide what is recorded.
  void Init(Capture* capture, const HsaFunctions* hsa,
            const HsaRecording* recording = nullptr) {
    capture_ = capture;
    hsa_ = hsa;
    recording_ = recording;
  }

  // The application rings `value` while we record. Never blocks: if another thread
  // holds the queue, that thread forwards this ring as well.
  void Ring(Queue* q, hsa_signal_value_t value, RingHandle* ring) {
    if (Unlikely(LoadRelaxed(&q->watched) != Queue::kNotWatched)) {
      StoreRelaxed(&q->watched, Queue::kNotWatched);
    }
    HandleRing(q, value, ring);
  }

  // The application rings while we do not record, but an operation still depends on a
  // signal of the application. The packets are captured in the same way, but only to see
  // which signals they use.
  void Watch(Queue* q, hsa_signal_value_t value, RingHandle* ring);

  // The application rings while we do neither; `store` is the function that it called.
  void RingIdle(Queue* q, hsa_signal_value_t value,
                decltype(&::hsa_signal_store_relaxed) store) {
    if (Unlikely(LoadRelaxed(&q->deferred) != 0)) Flush(q);
    // Read first: a store by every producer would cause contention for the line.
    if (LoadRelaxed(&q->idled) == 0) {
      StoreRelaxed(&q->idled, std::max(Queue::kIdled, Interruption()));
    }
    // If `value` is the index of a packet, the GPU may see all packets up to it.
    const auto index = static_cast<uint64_t>(value);
    if (Likely(index < WriteIndex(*q))) RaiseTo(&q->idle_end, index + 1);
    store(q->doorbell, value);
  }

  // With the queue's lock held: captures and forwards what is possible. The doorbell is
  // rung with the lock held, so that the queue is not destroyed meanwhile.
  void Serve(Queue* q, RingHandle* ring);
  // The same if there were rings since the queue was last served.
  void ServeNew(Queue* q, RingHandle* ring) {
    if (Unlikely(Unseen(*q))) Serve(q, ring);
  }
  // Unlocks, and serves producers that rang while the lock was taken. The lock of a
  // queue that is not intercepted must always be released this way: a ring that finds
  // it taken relies on it.
  void Leave(Queue* q, RingHandle* ring) {
    q->lock.UnlockFence();
    ServeMissed(q, ring);
  }

  // Detects packets that the GPU consumed without any ring through us, and records them
  // as far as possible. With the lock. True if there were any. `named`: see
  // Capture::Consumed().
  bool CatchUp(Queue* q, RingHandle* ring, bool named = true);

  // With the lock: counts what has passed while recording was interrupted.
  void CountInterrupted(Queue* q, RingHandle* ring);

  // With the lock of a queue that was lost and that its producer is using now: packets
  // are captured from the next one on. All earlier ones may have been rung for, and
  // have run, without us: those that are dispatches are counted, if `count` is set.
  void Skip(Queue* q, bool count, RingHandle* ring);

  // With the lock of a lost queue, or at the end: forwards waiting rings, in case the
  // queue still exists. Their packets are not captured.
  void PassOn(Queue* q);

 private:
  uint32_t Interruption() const {
    return recording_ != nullptr ? recording_->Interruption() : 0;
  }
  void HandleRing(Queue* q, hsa_signal_value_t value, RingHandle* ring);
  // True if packet `index` was rung for while we recorded, or if we record now.
  bool Recorded(const Queue& q, uint64_t index) const {
    return Likely(index < LoadRelaxed(&q.watched)) ||
           (recording_ != nullptr && recording_->Dispatches());
  }
  // Passes a packet that is not captured; its completion signal may be a tracked one.
  void Pass(const Queue& q, uint64_t index);
  // Captures what is possible, with the lock. True if the doorbell is to be rung for
  // all packets before `next`.
  bool Look(Queue* q, RingHandle* ring);
  void Forward(const Queue& q, uint64_t end) {
    hsa_->signal_store_screlease(q.doorbell, static_cast<int64_t>(end - 1));
  }
  static bool Unseen(const Queue& q) {
    return LoadAcquire(&q.rung) != LoadRelaxed(&q.looked);
  }
  // The rest of Leave(), after the unlock.
  void ServeMissed(Queue* q, RingHandle* ring);
  // Recording resumes with a ring for `index`: packets are captured from the first one
  // that the GPU could not see before.
  void Resume(Queue* q, uint64_t index, RingHandle* ring);
  // Forwards rings that wait for an earlier packet, whatever its state.
  void Flush(Queue* q);
  void Scan(Queue* q, uint64_t limit, uint64_t now_ns, RingHandle* ring);
  // Records packet `index`, a dispatch of any format. `packet` is the place where the
  // GPU reads it, `seen` its content.
  void Record(Queue* q, AqlPacket* packet, const PacketView& seen, uint64_t index,
              uint64_t now_ns, RingHandle* ring);

  Capture* capture_ = nullptr;
  const HsaFunctions* hsa_ = nullptr;
  const HsaRecording* recording_ = nullptr;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_DOORBELL_H_
