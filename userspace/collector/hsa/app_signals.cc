#include "userspace/collector/hsa/app_signals.h"

#include <algorithm>

#include "userspace/collector/hsa/backend.h"
#include "userspace/collector/hsa/hooks.h"

namespace rocattach::collector {
namespace {

const amd_signal_t* Raw(const Op& op) {
  return reinterpret_cast<const amd_signal_t*>(op.signal);
}

int64_t ValueOf(const Op& op) {
  return __atomic_load_n(const_cast<const int64_t*>(&Raw(op)->value), __ATOMIC_ACQUIRE);
}

// Whether the values of signals are those that the application has set. A tool that takes
// packets over before or after us may have added to them, as rocprofiler-sdk does with
// inline queue interposition.
bool ValuesAreTheApplications() {
  if (!g_hsa.queues_are_the_runtimes) return false;
  ApiTableRoot root = {};
  root.core = g_hsa.core_table;
  return root.core == nullptr || HooksInPlace(&root);
}

// The value of a signal once all have ended that count it down, one more included that
// uses it from now on, at `value`. `before`: without that one, as of when it was `seen`.
// What the application has added since will be counted down, too; where another tool adds,
// it takes that away again itself.
int64_t LastValue(int64_t before, int64_t seen, int64_t value) {
  if (value > seen && ValuesAreTheApplications()) before += value - seen;
  return std::min(before, value) - 1;
}

}  // namespace

void AppSignals::Track(uint32_t index, uint64_t group) {
  Op& op = ops_[index];
  op.group = group;
  op.resolved = false;
  op.timed = false;
  Shard& shard = ShardOf(op.signal);
  TinyLockHolder hold(shard.lock);
  op.alone = EndEarlier(&shard, &op);
  op.old_start = LoadRelaxed(&Raw(op)->start_ts);
  op.old_end = LoadRelaxed(&Raw(op)->end_ts);
  Link(&shard, index);
}

bool AppSignals::Poll(uint32_t index) {
  Op& op = ops_[index];
  Shard& shard = ShardOf(op.signal);
  TinyLockHolder hold(shard.lock);
  if (op.resolved) return true;
  if (Unlikely(LoadAcquire(&stopped_) != 0)) return false;
  const int64_t value = ValueOf(op);
  const bool ended =
      Likely(op.alone) ? TakeTimes(&op, /*reused=*/false) : AllEnded(op, value);
  op.seen = std::min(op.seen, value);
  if (!ended) return false;
  op.resolved = true;
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

bool AppSignals::EndEarlier(Shard* shard, Op* op) {
  bool all_ended = true;
  int64_t last = INT64_MAX, seen = INT64_MIN;
  const Op* fellow = nullptr;
  ForEach(shard, op->signal, [&](uint32_t index) {
    Op& other = ops_[index];
    if (op->group != 0 && other.group == op->group) {
      fellow = &other;
      return;
    }
    if (!HasEnded(&other)) {
      all_ended = false;
      last = std::min(last, other.last);
      seen = std::max(seen, other.seen);
    }
    other.resolved = true;
    Unlink(shard, index);
  });
  // Not before: an earlier one may have counted it down meanwhile.
  op->seen = ValueOf(*op);
  op->last = all_ended ? op->seen - 1 : LastValue(last, seen, op->seen);
  // The first of a group has met those from before.
  if (fellow != nullptr) {
    op->last = fellow->last;
    return fellow->alone;
  }
  return all_ended;
}

// One that cannot be told to have ended is followed on: it stands for what uses the signal
// now, too.
void AppSignals::Share(uint64_t signal) {
  Shard& shard = ShardOf(signal);
  TinyLockHolder hold(shard.lock);
  ForEach(&shard, signal, [&](uint32_t index) {
    Op& op = ops_[index];
    if (LoadAcquire(&stopped_) == 0 && !HasEnded(&op)) {
      const int64_t value = ValueOf(op);
      op.alone = false;
      op.last = LastValue(op.last, op.seen, value);
      op.seen = value;
      return;
    }
    op.resolved = true;
    Unlink(&shard, index);
  });
}

void AppSignals::ResolveAll(uint64_t signal, bool read) {
  Shard& shard = ShardOf(signal);
  TinyLockHolder hold(shard.lock);
  ForEach(&shard, signal, [&](uint32_t index) {
    if (read) HasEnded(&ops_[index]);
    ops_[index].resolved = true;
    Unlink(&shard, index);
  });
}

void AppSignals::LoseAll() {
  for (Shard& shard : shards_) {
    TinyLockHolder hold(shard.lock);
    while (shard.head != kNoOp) {
      ops_[shard.head].resolved = true;
      Unlink(&shard, shard.head);
    }
  }
}

bool AppSignals::HasEnded(Op* op) {
  if (Unlikely(LoadAcquire(&stopped_) != 0)) return false;
  // Read first: what counts it down has written its times.
  const int64_t value = ValueOf(*op);
  if (!op->alone) return AllEnded(*op, value);
  // One without times counts the signal down as well: its queue was not profiled.
  return TakeTimes(op, /*reused=*/true) || std::min(op->seen, value) <= op->last;
}

// Either each of them has counted the signal down, or the application has armed it anew,
// which it does not while it waits for any of them. Above 1 it may just have been added
// to, for one more.
bool AppSignals::AllEnded(const Op& op, int64_t value) {
  return value <= op.last || (value > op.seen && value <= 1);
}

bool AppSignals::TakeTimes(Op* op, bool reused) {
  if (op->copy) return TakeCopyTimes(op, reused);
  // The packet processor writes start, then end, then decrements.
  const uint64_t end = LoadAcquire(&Raw(*op)->end_ts);
  const uint64_t start = LoadRelaxed(&Raw(*op)->start_ts);
  if (end == op->old_end || start == op->old_start || start > end) return false;
  op->start = start;
  op->end = end;
  op->timed = true;
  return true;
}

// The runtime decrements at the end. A signal that is reused with its old value, which was
// for one operation, has been armed anew in between.
bool AppSignals::TakeCopyTimes(Op* op, bool reused) {
  const int64_t value = ValueOf(*op);
  const bool rearmed = reused && value == 1 && op->last == 0;
  if (value > op->last && !rearmed) return false;
  hsa_amd_profiling_async_copy_time_t time = {};
  op->timed = hsa_->get_async_copy_time({op->signal}, &time) == HSA_STATUS_SUCCESS &&
              time.end != 0 && time.start <= time.end;
  op->start = time.start;
  op->end = time.end;
  return true;
}

template <typename Use>
void AppSignals::ForEach(Shard* shard, uint64_t signal, Use use) {
  for (uint32_t i = shard->head; i != kNoOp;) {
    const uint32_t next = ops_[i].signal_next;
    if (ops_[i].signal == signal) use(i);
    i = next;
  }
}

void AppSignals::Link(Shard* shard, uint32_t index) {
  ops_[index].signal_next = shard->head;
  shard->head = index;
  __atomic_fetch_add(&tracked_, 1u, __ATOMIC_RELAXED);
}

void AppSignals::Unlink(Shard* shard, uint32_t index) {
  uint32_t* link = &shard->head;
  while (*link != kNoOp && *link != index) link = &ops_[*link].signal_next;
  if (*link == kNoOp) return;
  *link = ops_[index].signal_next;
  __atomic_fetch_sub(&tracked_, 1u, __ATOMIC_RELAXED);
}

}  // namespace rocattach::collector
