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

// True if the values of signals are those that the application has set. A tool that
// handles packets before or after us may have added to them, as rocprofiler-sdk does
// with inline queue interposition.
bool ValuesAreTheApplications() {
  if (!g_hsa.queues_are_the_runtimes) return false;
  ApiTableRoot root = {};
  root.core = g_hsa.core_table;
  return root.core == nullptr || HooksInPlace(&root);
}

// The value of a signal, now at `value`, once all operations that count it down have
// ended, including one more that uses it from now on. `before` is the same without that
// one, from when the signal was at `seen`. What the application has added since will be
// counted down, too; another tool that adds to the value subtracts it again itself.
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
      Likely(op.alone) ? ReadTimes(&op, /*reused=*/false) : AllEnded(op, value);
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
  // Read only now: an earlier operation may have counted it down meanwhile.
  op->seen = ValueOf(*op);
  op->last = all_ended ? op->seen - 1 : LastValue(last, seen, op->seen);
  // The first operation of a group has dealt with the earlier ones.
  if (fellow != nullptr) {
    op->last = fellow->last;
    return fellow->alone;
  }
  return all_ended;
}

// An operation that is not known to have ended stays tracked: from now on it stands for
// the new use of the signal, too.
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
  // Read the value first: an operation writes its times before it counts down.
  const int64_t value = ValueOf(*op);
  if (!op->alone) return AllEnded(*op, value);
  // An operation without times also counts down: its queue was not profiled.
  return ReadTimes(op, /*reused=*/true) || std::min(op->seen, value) <= op->last;
}

// Either each of them has counted the signal down, or the application has rearmed it,
// which it does not do while it waits for any of them. With a value above 1 it may only
// have added to the signal for one more operation.
bool AppSignals::AllEnded(const Op& op, int64_t value) {
  return value <= op.last || (value > op.seen && value <= 1);
}

bool AppSignals::ReadTimes(Op* op, bool reused) {
  if (op->copy) return ReadCopyTimes(op, reused);
  // The packet processor writes start, then end, then decrements.
  const uint64_t end = LoadAcquire(&Raw(*op)->end_ts);
  const uint64_t start = LoadRelaxed(&Raw(*op)->start_ts);
  if (end == op->old_end || start == op->old_start || start > end) return false;
  op->start = start;
  op->end = end;
  op->timed = true;
  return true;
}

// The runtime decrements the signal at the end. A signal that is reused with its old
// value, which was for one operation, has been rearmed in between.
bool AppSignals::ReadCopyTimes(Op* op, bool reused) {
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
