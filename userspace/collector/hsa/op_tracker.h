// Operations between capture and publication.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_OP_TRACKER_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_OP_TRACKER_H_

#include <stdint.h>

#include "userspace/abi/inflight.h"
#include "userspace/collector/common/memory.h"
#include "userspace/collector/common/op.h"
#include "userspace/collector/common/ring.h"
#include "userspace/collector/hsa/app_signals.h"
#include "userspace/collector/hsa/clock_source.h"
#include "userspace/collector/hsa/signal_pool.h"

namespace rocattach::collector {

// The parts of an operation's queue that publishing needs.
struct HarvestContext {
  const Agent* agent;  // the signals hold this agent's ticks
  ClockMap* clock;     // the queue's
  RingHandle* ring;    // the calling thread's
};

// Owns the in-flight table. Lists are guarded by their owners' locks.
class OpTracker {
 public:
  // 0 or an errno value.
  int Init(Memory* memory, const HsaFunctions* hsa);

  SignalPool& signals() { return signals_; }
  AppSignals& app_signals() { return app_signals_; }
  ClockSource& clocks() { return clocks_; }
  Op& op(uint32_t index) { return ops_[index]; }
  rocattach_inflight* shared(uint32_t index) { return memory_->inflight(index); }

  // A free entry, or kNoOp when the table is full.
  uint32_t Take(OpList* list) {
    if (Unlikely(list->free_head == kNoOp) && !Restock(list)) return kNoOp;
    uint32_t index = list->free_head;
    list->free_head = links_[index].next;
    --list->free_count;
    return index;
  }

  // Prefetches the cache lines that the next capture writes: the packet processor had
  // them last, and the application is about to do something else.
  void PrefetchNext(const OpList& list) {
    if (!signals_.ready()) return;
    if (list.free_head != kNoOp) {
      PrefetchForWrite(signals_.at(list.free_head));
      auto* entry = reinterpret_cast<const char*>(shared(list.free_head));
      PrefetchForWrite(entry);
      PrefetchForWrite(entry + 64);
    }
  }

  // Returns an entry that was taken and not appended.
  void Return(OpList* list, uint32_t index) {
    links_[index].next = list->free_head;
    list->free_head = index;
    ++list->free_count;
  }

  // Puts an entry, whose shared part is filled in, at the end of the list. `barrier`: its
  // packet begins when all before it have ended.
  void Append(OpList* list, uint32_t index, OpKind kind, uint64_t packet, bool barrier,
              RingHandle* ring) {
    OpLink link;
    link.next = kNoOp;
    link.kind = kind;
    link.barrier = barrier ? 1 : 0;
    link.SetPacket(packet);
    links_[index] = link;
    if (list->tail == kNoOp) {
      list->head = index;
    } else {
      links_[list->tail].next = index;
    }
    list->tail = index;
    ++list->count;
    uint16_t record_kind =
        kind == OpKind::kCopy ? ROCATTACH_RECORD_COPY : ROCATTACH_RECORD_DISPATCH;
    StoreRelease(&shared(index)->kind, record_kind);
    ring->Count(&rocattach_ring::inflight, int64_t{1});
  }

  // Publishes finished operations, oldest first: at most `limit` of them, and giving up
  // after `patience` unfinished ones. Returns how many were published. These include,
  // without times, dispatches whose end their signal does not show.
  uint32_t Harvest(OpList* list, const HarvestContext& context, uint32_t limit,
                   uint32_t patience);

  // Publishes finished dispatches, oldest first, at most `limit`, without reading the
  // signals of packets that the packet processor has not reached: the processor would
  // have to fetch the cache line back before writing it. If a processor reports its
  // progress late, callers other than the producers harvest in full.
  void HarvestConsumed(OpList* list, const HarvestContext& context, uint64_t read_index,
                       uint32_t limit);

  // Removes an operation without publishing it, as if it had never existed.
  void Discard(OpList* list, uint32_t index, RingHandle* ring);

  // The same for all operations of these groups; returns how many there were.
  uint64_t DiscardGroups(OpList* list, uint64_t first, uint64_t last, RingHandle* ring);

  // Moves the oldest operation to the end, so that one that never finishes does not
  // block those after it.
  void Rotate(OpList* list);

  // Publishes everything that is left as unfinished, without further checks.
  void PublishUnfinished(OpList* list, const HarvestContext& context);

  // Publishes a dispatch that has no entry.
  void PublishUntimed(const rocattach_inflight& entry, RingHandle* ring);

  // Returns the list's free entries to the common pool.
  void Retire(OpList* list);

  // False if another tool, between us and the runtime, moves packets and signals: it
  // may leave two equal times in one of our signals, which are then meaningless.
  void set_times_are_ours(bool ours) { times_are_ours_ = ours; }

  // True if packets without a completion signal get one of ours.
  void set_adds_signals(bool adds) { adds_signals_ = adds; }
  bool adds_signals() const { return adds_signals_; }

  uint64_t NextCorrelation(uint64_t count) {
    return __atomic_fetch_add(&next_correlation_, count, __ATOMIC_RELAXED);
  }

 private:
  bool Finished(uint32_t index);
  // True if a dispatch has ended although its signal, one of ours, will never show it.
  bool EndedUntold(const OpList& list, uint32_t index);
  // Removes an operation from its list. `before` is the one before it, or kNoOp.
  void Unlink(OpList* list, uint32_t index, uint32_t before);
  uint32_t Prefetch(uint32_t index, uint64_t read_index);
  void Publish(OpList* list, uint32_t index, const HarvestContext& context,
               uint16_t flags);
  bool TimesOf(uint32_t index, const HarvestContext& context, OperationEnd* end);
  bool Restock(OpList* list);
  void ReturnHalf(OpList* list);

  Memory* memory_ = nullptr;
  OpLink* links_ = nullptr;
  Op* ops_ = nullptr;
  SignalPool signals_;
  AppSignals app_signals_;
  ClockSource clocks_;
  bool times_are_ours_ = true;
  bool adds_signals_ = true;
  // Every producer writes the members below; it only reads those above.
  alignas(64) uint64_t next_correlation_ = 1;
  alignas(64) TinyLock free_lock_;
  uint32_t free_head_ = kNoOp;
  uint32_t never_used_ = 0;  // entries from here on have not been taken yet
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_OP_TRACKER_H_
