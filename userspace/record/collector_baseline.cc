// CollectorMemory: accounts, and what they begin from after a take-over.
#include <algorithm>
#include <vector>

#include "userspace/abi/atomics.h"
#include "userspace/record/collector_memory.h"

namespace rocattach {
namespace {

// A baseline is read again if the process was busy meanwhile, up to so many times.
constexpr int kBaselineTries = 8;

// Makes up to `count` operations not seen.
void Unsee(uint64_t count, CollectorAccount* account) {
  const uint64_t dispatches = std::min(count, account->dispatches_seen);
  account->dispatches_seen -= dispatches;
  account->copies_seen -= std::min(count - dispatches, account->copies_seen);
}

// `seen` was read before `lost`: what is seen in between only counts as seen.
CollectorAccount Combine(const CollectorAccount& seen, const CollectorAccount& lost) {
  CollectorAccount account = lost;
  account.dispatches_seen = seen.dispatches_seen;
  account.copies_seen = seen.copies_seen;
  account.counted_seen = seen.counted_seen;
  account.samples_seen = seen.samples_seen;
  account.api_calls_seen = seen.api_calls_seen;
  account.memory_seen = seen.memory_seen;
  account.inflight = seen.inflight;
  return account;
}

}  // namespace

// From here on no more operations may be taken, lost or left out than are seen, or the
// process would never be believed again. It runs on while it is read, so the baseline's
// error has to be in the other direction:
// 1. What is seen is read before the heads, and what is lost or left out behind them: an
//    operation in between counts as seen, and as nothing else.
// 2. What was seen by then and will be published is not part of the baseline: what is in
//    flight. That is a sum of differences, which is too small by as many as were
//    captured while it was read. The accounts before and behind say how many.
// 3. A thread may just have counted an operation as seen, and not as in flight, or the
//    reverse: one each.
bool CollectorMemory::BeginFromHere() {
  Snapshot();
  std::vector<uint64_t> heads(pages_.used()), best_heads;
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < kBaselineTries && least != 0; ++i) {
    const CollectorAccount first = TotalAccount();
    const CollectorAccount seen = TotalAccount();
    if (!Reach()) return false;
    for (uint32_t r = 0; r < heads.size(); ++r) {
      heads[r] = collector::LoadAcquire(&ring(r)->head);
    }
    const CollectorAccount lost = TotalAccount();
    if (!account_is_current_) return false;
    const CollectorAccount moved = lost.Since(first);
    const uint64_t count = moved.dispatches_seen + moved.copies_seen + moved.produced;
    if (count >= least) continue;
    least = count;
    best_heads = heads;
    before_ = Combine(seen, lost);
  }
  before_.produced = before_.delivered = 0;
  for (uint32_t r = 0; r < heads.size(); ++r) {
    Position& position = positions_[r];
    position.head = position.tail = best_heads[r];
    position.corrupt = false;
    before_.produced += best_heads[r];
    before_.delivered += best_heads[r];
    FreeTaken(r);
  }
  const uint64_t threads = 2 * uint64_t{pages_.used()};
  Unsee(before_.inflight + least + threads, &before_);
  unsure_ = 2 * least + threads;
  before_.inflight = 0;
  // The dictionary is read from its beginning.
  before_.dictionary_dropped = 0;
  return true;
}

CollectorAccount CollectorMemory::Account() const {
  return taken_over_ ? TotalAccount().Since(before_) : TotalAccount();
}

CollectorAccount CollectorMemory::SettledAccount(uint64_t taken) const {
  CollectorAccount account = Account();
  if (unsure_ == 0) return account;
  const uint64_t seen = account.dispatches_seen + account.copies_seen;
  const uint64_t known = taken + account.ring_dropped + account.other_dropped +
                         account.sampled_out + account.inflight;
  // The least that was ever too many: more than that is lost.
  unsure_ = std::min(unsure_, seen - std::min(known, seen));
  Unsee(unsure_, &account);
  return account;
}

CollectorAccount CollectorMemory::TotalAccount() const {
  account_is_current_ = pages_.used() == 0 || Reach();
  if (!account_is_current_) return last_account_;
  std::vector<const rocattach_ring*> rings;
  rings.reserve(pages_.used());
  for (uint32_t i = 0; i < pages_.used(); ++i) rings.push_back(ring(i));
  last_account_ = ReadAccount(*control(), rings);
  for (uint32_t i = 0; i < pages_.used(); ++i) {
    last_account_.delivered += positions_[i].tail;
    last_account_.corrupt_rings += positions_[i].corrupt ? 1 : 0;
  }
  return last_account_;
}

}  // namespace rocattach
