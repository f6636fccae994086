#include "userspace/collector/op_tracker.h"

#include <string.h>

namespace rocattach::collector {
namespace {

constexpr uint32_t kStock = 32;
constexpr uint32_t kMaxStock = 4 * kStock;

}  // namespace

int OpTracker::Init(Memory* memory, const HsaFunctions* hsa) {
  memory_ = memory;
  uint32_t count = memory->layout().inflight_count;
  ops_ = static_cast<Op*>(AllocatePrivate(count * sizeof(Op)));
  if (ops_ == nullptr) return ENOMEM;
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
      free_head_ = ops_[index].next;
    } else if (never_used_ < memory_->layout().inflight_count) {
      index = never_used_++;
    } else {
      break;
    }
    ops_[index].next = list->free_head;
    list->free_head = index;
    ++list->free_count;
  }
  return list->free_count != 0;
}

void OpTracker::ReturnHalf(OpList* list) {
  TinyLockHolder hold(free_lock_);
  while (list->free_count > kMaxStock / 2) {
    uint32_t index = list->free_head;
    list->free_head = ops_[index].next;
    --list->free_count;
    ops_[index].next = free_head_;
    free_head_ = index;
  }
}

void OpTracker::Retire(OpList* list) {
  TinyLockHolder hold(free_lock_);
  while (list->free_head != kNoOp) {
    uint32_t index = list->free_head;
    list->free_head = ops_[index].next;
    ops_[index].next = free_head_;
    free_head_ = index;
  }
  list->free_count = 0;
}

bool OpTracker::Finished(uint32_t index) {
  if (ops_[index].kind == OpKind::kOwnSignal) {
    return SignalPool::Done(signals_.at(index));
  }
  return app_signals_.Poll(index);
}

uint32_t OpTracker::Harvest(OpList* list, const HarvestContext& context, uint32_t limit,
                            uint32_t patience) {
  uint32_t published = 0;
  uint32_t before = kNoOp;
  uint32_t index = list->head;
  while (index != kNoOp && published < limit) {
    uint32_t next = ops_[index].next;
    if (!Finished(index)) {
      if (patience-- == 0) break;
      before = index;
      index = next;
      continue;
    }
    if (before == kNoOp) {
      list->head = next;
    } else {
      ops_[before].next = next;
    }
    if (next == kNoOp) list->tail = before;
    --list->count;
    Publish(list, index, context, 0);
    ++published;
    index = next;
  }
  return published;
}

void OpTracker::Discard(OpList* list, uint32_t index, RingHandle* ring) {
  uint32_t before = kNoOp;
  for (uint32_t i = list->head; i != index; i = ops_[i].next) {
    if (i == kNoOp) return;  // published already
    before = i;
  }
  (before == kNoOp ? list->head : ops_[before].next) = ops_[index].next;
  if (list->tail == index) list->tail = before;
  --list->count;
  if (ops_[index].kind != OpKind::kOwnSignal) app_signals_.Abandon(index);
  StoreRelease(&shared(index)->state, 0u);
  ring->Count(&rocattach_ring::inflight, int64_t{-1});
  ops_[index].next = list->free_head;
  list->free_head = index;
  ++list->free_count;
}

void OpTracker::Rotate(OpList* list) {
  if (list->count < 2) return;
  uint32_t index = list->head;
  list->head = ops_[index].next;
  ops_[list->tail].next = index;
  ops_[index].next = kNoOp;
  list->tail = index;
}

void OpTracker::PublishUnfinished(OpList* list, const HarvestContext& context) {
  while (list->head != kNoOp) {
    uint32_t index = list->head;
    list->head = ops_[index].next;
    if (ops_[index].kind != OpKind::kOwnSignal) app_signals_.Abandon(index);
    --list->count;
    Publish(list, index, context, ROCATTACH_DISPATCH_UNFINISHED);
  }
  list->tail = kNoOp;
}

bool OpTracker::FillTimes(uint32_t index, const HarvestContext& context,
                          rocattach_dispatch* record) {
  const Op& op = ops_[index];
  uint64_t start, end;
  switch (op.kind) {
    case OpKind::kCopy:
      if (!op.timed) return false;
      record->start_ns = clocks_.SystemToBoot(op.start);
      record->end_ns = clocks_.SystemToBoot(op.end);
      return true;
    case OpKind::kAppSignal:
      if (!op.timed) return false;
      start = op.start;
      end = op.end;
      break;
    case OpKind::kOwnSignal:
    default:
      start = signals_.at(index)->start_ts;
      end = signals_.at(index)->end_ts;
      break;
  }
  // Zero: the queue was not profiled when the packet ran.
  if (start == 0 || end < start) return false;
  if (Unlikely(!context.clock->Covers(end))) {
    if (!clocks_.Refresh(*context.agent, end, context.clock)) return false;
    clocks_.Publish(*context.agent, *context.clock, context.ring);
  }
  record->start_ns = context.clock->ToNs(start);
  record->end_ns = context.clock->ToNs(end);
  return true;
}

void OpTracker::Publish(OpList* list, uint32_t index, const HarvestContext& context,
                        uint16_t flags) {
  static_assert(__builtin_offsetof(rocattach_dispatch, start_ns) ==
                        __builtin_offsetof(rocattach_copy, start_ns) &&
                    __builtin_offsetof(rocattach_dispatch, flags) ==
                        __builtin_offsetof(rocattach_copy, flags),
                "one path fills in both");
  rocattach_dispatch* record = &shared(index)->dispatch;
  if (flags != 0 || !FillTimes(index, context, record)) {
    flags |= ROCATTACH_DISPATCH_UNTIMED;
    if (ops_[index].kind != OpKind::kCopy) {
      context.ring->Count(&rocattach_ring::dispatches_untimed, uint64_t{1});
    }
  }
  record->flags |= flags;
  context.ring->Push(record);
  StoreRelease(&shared(index)->state, 0u);
  context.ring->Count(&rocattach_ring::inflight, int64_t{-1});
  ops_[index].next = list->free_head;
  list->free_head = index;
  if (Unlikely(++list->free_count > kMaxStock)) ReturnHalf(list);
}

void OpTracker::PublishUntimed(rocattach_dispatch* record, RingHandle* ring) {
  record->flags |= ROCATTACH_DISPATCH_UNTIMED;
  ring->Push(record);
  ring->Count(&rocattach_ring::dispatches_untimed, uint64_t{1});
}

}  // namespace rocattach::collector
