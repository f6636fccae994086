#include "userspace/collector/hsa/op_tracker.h"

#include <string.h>

#include <algorithm>

namespace rocattach::collector {
namespace {

constexpr uint32_t kStock = 32;
constexpr uint32_t kMaxStock = 4 * kStock;
// Number of operations to prefetch while one is published.
constexpr uint32_t kLookAhead = 4;

}  // namespace

int OpTracker::Init(Memory* memory, const HsaFunctions* hsa) {
  memory_ = memory;
  uint32_t count = memory->geometry().inflight_count;
  ops_ = static_cast<Op*>(AllocatePrivate(count * sizeof(Op)));
  links_ = static_cast<OpLink*>(AllocatePrivate(count * sizeof(OpLink)));
  if (ops_ == nullptr || links_ == nullptr) {
    return Failed(ROCATTACH_SETUP_MMAP, ENOMEM);
  }
  app_signals_.Init(ops_, hsa);
  free_head_ = kNoOp;
  never_used_ = 0;
  return 0;
}

bool OpTracker::Restock(OpList* list) {
  TinyLockHolder hold(free_lock_);
  while (list->free_count < kStock) {
    uint32_t index;
    if (free_head_ != kNoOp) {
      index = free_head_;
      free_head_ = links_[index].next;
    } else if (never_used_ < memory_->geometry().inflight_count &&
               memory_->CommitInflight(never_used_)) {
      index = never_used_++;
    } else {
      break;
    }
    links_[index].next = list->free_head;
    list->free_head = index;
    ++list->free_count;
  }
  return list->free_count != 0;
}

void OpTracker::ReturnHalf(OpList* list) {
  TinyLockHolder hold(free_lock_);
  while (list->free_count > kMaxStock / 2) {
    uint32_t index = list->free_head;
    list->free_head = links_[index].next;
    --list->free_count;
    links_[index].next = free_head_;
    free_head_ = index;
  }
}

void OpTracker::Retire(OpList* list) {
  TinyLockHolder hold(free_lock_);
  while (list->free_head != kNoOp) {
    uint32_t index = list->free_head;
    list->free_head = links_[index].next;
    links_[index].next = free_head_;
    free_head_ = index;
  }
  list->free_count = 0;
  list->all_ended = 0;
}

bool OpTracker::Finished(uint32_t index) {
  if (links_[index].kind == OpKind::kOwnSignal) {
    return SignalPool::Done(signals_.at(index));
  }
  return app_signals_.Poll(index);
}

// A packet processor that was rung past a packet may take it just before the packet
// gets a signal of ours. It has certainly ended when a later packet that had to wait
// for all before it has ended. The later one's signal was read first: a signal not done
// by now never will be. A tool that moves packets may complete them in another order.
bool OpTracker::EndedUntold(const OpList& list, uint32_t index) {
  return links_[index].kind == OpKind::kOwnSignal && times_are_ours_ &&
         shared(index)->u.dispatch.packet_index < list.all_ended &&
         !SignalPool::Done(signals_.at(index));
}

void OpTracker::Unlink(OpList* list, uint32_t index, uint32_t before) {
  const uint32_t next = links_[index].next;
  if (before == kNoOp) {
    list->head = next;
  } else {
    links_[before].next = next;
  }
  if (next == kNoOp) list->tail = before;
}

uint32_t OpTracker::Harvest(OpList* list, const HarvestContext& context, uint32_t limit,
                            uint32_t patience) {
  uint32_t published = 0;
  uint32_t before = kNoOp;
  uint32_t index = list->head;
  while (index != kNoOp && published < limit) {
    uint32_t next = links_[index].next;
    uint16_t flags = 0;
    if (!Finished(index)) {
      if (!EndedUntold(*list, index)) {
        if (patience-- == 0) break;
        before = index;
        index = next;
        continue;
      }
      flags = ROCATTACH_DISPATCH_UNTIMED;
    }
    Unlink(list, index, before);
    Publish(list, index, context, flags);
    // Only now: what other threads see as gone must have been published.
    StoreRelease(&list->count, list->count - 1);
    ++published;
    index = next;
  }
  return published;
}

// Prefetches what publishing an operation reads; returns the next one.
uint32_t OpTracker::Prefetch(uint32_t index, uint64_t read_index) {
  if (index == kNoOp || !links_[index].Consumed(read_index)) return kNoOp;
  if (links_[index].kind == OpKind::kOwnSignal) __builtin_prefetch(signals_.at(index));
  auto* entry = reinterpret_cast<const char*>(shared(index));
  __builtin_prefetch(entry);
  __builtin_prefetch(entry + 64);
  return links_[index].next;
}

void OpTracker::HarvestConsumed(OpList* list, const HarvestContext& context,
                                uint64_t read_index, uint32_t limit) {
  uint32_t ahead = list->head;
  for (uint32_t i = 0; i < kLookAhead; ++i) ahead = Prefetch(ahead, read_index);
  for (uint32_t published = 0; published < limit; ++published) {
    uint32_t index = list->head;
    if (index == kNoOp || !links_[index].Consumed(read_index) || !Finished(index)) {
      return;
    }
    ahead = Prefetch(ahead, read_index);
    list->head = links_[index].next;
    if (list->head == kNoOp) list->tail = kNoOp;
    Publish(list, index, context, 0);
    StoreRelease(&list->count, list->count - 1);
  }
}

void OpTracker::Discard(OpList* list, uint32_t index, RingHandle* ring) {
  uint32_t before = kNoOp;
  for (uint32_t i = list->head; i != index; i = links_[i].next) {
    if (i == kNoOp) return;  // published already
    before = i;
  }
  Unlink(list, index, before);
  --list->count;
  if (links_[index].kind != OpKind::kOwnSignal) app_signals_.Abandon(index);
  StoreRelease(&shared(index)->kind, uint16_t{0});
  ring->Count(&rocattach_ring::inflight, int64_t{-1});
  links_[index].next = list->free_head;
  list->free_head = index;
  ++list->free_count;
}

uint64_t OpTracker::DiscardGroups(OpList* list, uint64_t first, uint64_t last,
                                  RingHandle* ring) {
  uint64_t count = 0;
  for (uint32_t i = list->head; i != kNoOp;) {
    const uint32_t next = links_[i].next;
    if (ops_[i].group >= first && ops_[i].group <= last) {
      Discard(list, i, ring);
      ++count;
    }
    i = next;
  }
  return count;
}

void OpTracker::Rotate(OpList* list) {
  if (list->count < 2) return;
  uint32_t index = list->head;
  list->head = links_[index].next;
  links_[list->tail].next = index;
  links_[index].next = kNoOp;
  list->tail = index;
}

void OpTracker::PublishUnfinished(OpList* list, const HarvestContext& context) {
  while (list->head != kNoOp) {
    uint32_t index = list->head;
    list->head = links_[index].next;
    if (links_[index].kind != OpKind::kOwnSignal) app_signals_.Abandon(index);
    --list->count;
    Publish(list, index, context, ROCATTACH_DISPATCH_UNFINISHED);
  }
  list->tail = kNoOp;
}

bool OpTracker::TimesOf(uint32_t index, const HarvestContext& context,
                        OperationEnd* result) {
  uint64_t start, end;
  if (Likely(links_[index].kind == OpKind::kOwnSignal)) {
    start = signals_.at(index)->start_ts;
    end = signals_.at(index)->end_ts;
    if (Unlikely(!times_are_ours_) && start == end) return false;
  } else {
    const Op& op = ops_[index];
    if (!op.timed) return false;
    if (op.copy) {
      result->start_ns = clocks_.SystemToBoot(op.start);
      result->end_ns = clocks_.SystemToBoot(op.end);
      return true;
    }
    start = op.start;
    end = op.end;
  }
  // Zero: the queue was not profiled when the packet ran.
  if (start == 0 || end < start) return false;
  if (Unlikely(!context.clock->Covers(end))) {
    if (!clocks_.Refresh(*context.agent, end, context.clock)) return false;
    clocks_.Publish(*context.agent, *context.clock, context.ring);
  }
  result->start_ns = context.clock->ToNs(start);
  result->end_ns = context.clock->ToNs(end);
  return true;
}

void OpTracker::Publish(OpList* list, uint32_t index, const HarvestContext& context,
                        uint16_t flags) {
  bool copy = links_[index].kind == OpKind::kCopy;
  OperationEnd end;
  end.flags = flags;
  if (flags != 0 || !TimesOf(index, context, &end)) {
    end.flags |= ROCATTACH_DISPATCH_UNTIMED;
    if (!copy) context.ring->Count(&rocattach_ring::dispatches_untimed, uint64_t{1});
  }
  rocattach_inflight* entry = shared(index);
  // An application's signal proves the end of an operation only if it has the times.
  if (links_[index].barrier != 0 && flags == 0 &&
      (links_[index].kind == OpKind::kOwnSignal || ops_[index].timed)) {
    list->all_ended = std::max(list->all_ended, entry->u.dispatch.packet_index);
  }
  context.ring->PushOperation(
      [&](void* slot) {
        if (Unlikely(copy)) {
          UnpackCopy(*entry, end, static_cast<rocattach_copy*>(slot));
        } else {
          UnpackDispatch(*entry, end, static_cast<rocattach_dispatch*>(slot));
        }
      },
      copy ? &rocattach_ring::copies_dropped : &rocattach_ring::dispatches_dropped,
      entry);
  context.ring->Count(&rocattach_ring::inflight, int64_t{-1});
  links_[index].next = list->free_head;
  list->free_head = index;
  if (Unlikely(++list->free_count > kMaxStock)) ReturnHalf(list);
}

void OpTracker::PublishUntimed(const rocattach_inflight& entry, RingHandle* ring) {
  OperationEnd end;
  end.flags = ROCATTACH_DISPATCH_UNTIMED;
  ring->PushOperation(
      [&](void* slot) {
        UnpackDispatch(entry, end, static_cast<rocattach_dispatch*>(slot));
      },
      &rocattach_ring::dispatches_dropped, nullptr);
  ring->Count(&rocattach_ring::dispatches_untimed, uint64_t{1});
}

}  // namespace rocattach::collector
