#include "userspace/collector/hsa/app_signals.h"

namespace rocattach::collector {
namespace {

const amd_signal_t* Raw(const Op& op) {
  return reinterpret_cast<const amd_signal_t*>(op.signal);
}

uint64_t ValueOf(const Op& op) {
  return static_cast<uint64_t>(
      __atomic_load_n(const_cast<const int64_t*>(&Raw(op)->value), __ATOMIC_ACQUIRE));
}

}  // namespace

void AppSignals::Track(uint32_t index, uint64_t group) {
  Op& op = ops_[index];
  op.group = group;
  op.resolved = false;
  op.timed = false;
  Shard& shard = ShardOf(op.signal);
  TinyLockHolder hold(shard.lock);
  bool ambiguous = false;
  for (uint32_t i = shard.head; i != kNoOp;) {
    Op& other = ops_[i];
    uint32_t next = other.signal_next;
    const bool together = group != 0 && other.group == group;
    if (other.signal == op.signal && !together) {
      ambiguous |= !TryResolve(&other, /*signal_ends=*/true);
      Unlink(&shard, i);
    }
    i = next;
  }
  if (ambiguous) {
    op.resolved = true;
    return;
  }
  op.old_start = op.copy ? ValueOf(op) : LoadRelaxed(&Raw(op)->start_ts);
  op.old_end = LoadRelaxed(&Raw(op)->end_ts);
  op.signal_next = shard.head;
  shard.head = index;
  __atomic_fetch_add(&tracked_, 1u, __ATOMIC_RELAXED);
}

bool AppSignals::Poll(uint32_t index) {
  Op& op = ops_[index];
  Shard& shard = ShardOf(op.signal);
  TinyLockHolder hold(shard.lock);
  if (op.resolved) return true;
  if (!TryResolve(&op, /*signal_ends=*/false)) return false;
  Unlink(&shard, index);
  return true;
}

void AppSignals::Abandon(uint32_t index) {
  Op& op = ops_[index];
  Shard& shard = ShardOf(op.signal);
  TinyLockHolder hold(shard.lock);
  if (op.resolved) return;
  op.resolved = true;
  Unlink(&shard, index);
}

void AppSignals::ResolveAll(uint64_t signal, bool read) {
  Shard& shard = ShardOf(signal);
  TinyLockHolder hold(shard.lock);
  for (uint32_t i = shard.head; i != kNoOp;) {
    uint32_t next = ops_[i].signal_next;
    if (ops_[i].signal == signal) {
      if (read) TryResolve(&ops_[i], /*signal_ends=*/true);
      ops_[i].resolved = true;
      Unlink(&shard, i);
    }
    i = next;
  }
}

// With the shard's lock. Fills in the times if the operation has finished. With
// `signal_ends`, the operation is resolved even if it has not.
bool AppSignals::TryResolve(Op* op, bool signal_ends) {
  if (Unlikely(LoadAcquire(&stopped_) != 0)) {
    op->resolved |= signal_ends;
    return false;
  }
  bool finished;
  if (op->copy) {
    // The runtime decrements at the end. A signal that is reused with its old value has
    // been re-armed in between; for one that counts several operations this is unknown.
    uint64_t value = ValueOf(*op);
    bool rearmed = signal_ends && op->old_start == 1 && value == 1;
    finished =
        static_cast<int64_t>(value) < static_cast<int64_t>(op->old_start) || rearmed;
    hsa_amd_profiling_async_copy_time_t time = {};
    if (finished &&
        hsa_->get_async_copy_time({op->signal}, &time) == HSA_STATUS_SUCCESS &&
        time.end != 0 && time.start <= time.end) {
      op->start = time.start;
      op->end = time.end;
      op->timed = true;
    }
  } else {
    // The packet processor writes start, then end, then decrements.
    uint64_t end = LoadAcquire(&Raw(*op)->end_ts);
    uint64_t start = LoadRelaxed(&Raw(*op)->start_ts);
    finished = end != op->old_end && start != op->old_start && start <= end;
    if (finished) {
      op->start = start;
      op->end = end;
      op->timed = true;
    }
  }
  if (finished || signal_ends) op->resolved = true;
  return finished;
}

void AppSignals::Unlink(Shard* shard, uint32_t index) {
  uint32_t* link = &shard->head;
  while (*link != kNoOp && *link != index) link = &ops_[*link].signal_next;
  if (*link == kNoOp) return;
  *link = ops_[index].signal_next;
  __atomic_fetch_sub(&tracked_, 1u, __ATOMIC_RELAXED);
}

}  // namespace rocattach::collector
