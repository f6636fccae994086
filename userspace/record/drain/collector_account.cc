#include "userspace/record/drain/collector_account.h"

#include <algorithm>

#include "userspace/abi/atomics.h"

namespace rocattach {

using collector::LoadAcquire;
using collector::LoadRelaxed;

CollectorAccount CollectorAccount::Since(const CollectorAccount& before) const {
  constexpr uint64_t CollectorAccount::*kCounts[] = {
      &CollectorAccount::produced,
      &CollectorAccount::delivered,
      &CollectorAccount::ring_dropped,
      &CollectorAccount::other_dropped,
      &CollectorAccount::dispatches_seen,
      &CollectorAccount::copies_seen,
      &CollectorAccount::dispatches_untimed,
      &CollectorAccount::packets_unseen,
      &CollectorAccount::counted_seen,
      &CollectorAccount::counted_dropped,
      &CollectorAccount::values_dropped,
      &CollectorAccount::samples_seen,
      &CollectorAccount::samples_dropped,
      &CollectorAccount::api_calls_seen,
      &CollectorAccount::api_calls_dropped,
      &CollectorAccount::memory_seen,
      &CollectorAccount::memory_dropped,
      &CollectorAccount::sampled_out,
      &CollectorAccount::own_ns};
  CollectorAccount since = *this;
  for (auto count : kCounts) since.*count -= std::min(since.*count, before.*count);
  return since;
}

CollectorAccount ReadAccount(const rocattach_control& control,
                             absl::Span<const rocattach_ring* const> rings) {
  CollectorAccount account;
  account.other_dropped = LoadAcquire(&control.other_dropped);
  account.dictionary_dropped = LoadRelaxed(&control.dictionary_dropped);
  account.own_ns = LoadRelaxed(&control.hook_ns_total);
  // A target may have written anything: sums must saturate, not wrap.
  auto add = [](uint64_t* sum, uint64_t more) {
    if (__builtin_add_overflow(*sum, more, sum)) *sum = UINT64_MAX;
  };
  // Read lost and sampled-out counts before seen counts: while we read, an operation of
  // a running process may be counted as seen in one ring and as lost in another.
  for (const rocattach_ring* ring : rings) {
    add(&account.ring_dropped, LoadAcquire(&ring->dispatches_dropped));
    add(&account.ring_dropped, LoadAcquire(&ring->copies_dropped));
    add(&account.sampled_out, LoadAcquire(&ring->sampled_out));
  }
  // A ring's value may be negative: another thread may publish what this one captured.
  uint64_t inflight = 0;
  for (const rocattach_ring* ring : rings) {
    add(&account.produced, LoadAcquire(&ring->head));
    // The rings' own counters, not the control block's sums: those are refreshed
    // occasionally, these are exact at any time, even after a SIGKILL.
    add(&account.dispatches_seen, LoadRelaxed(&ring->dispatches_seen));
    add(&account.copies_seen, LoadRelaxed(&ring->copies_seen));
    add(&account.dispatches_untimed, LoadRelaxed(&ring->dispatches_untimed));
    add(&account.packets_unseen, LoadRelaxed(&ring->packets_unseen));
    inflight += static_cast<uint64_t>(LoadRelaxed(&ring->inflight));
    add(&account.counted_seen, LoadRelaxed(&ring->counted_seen));
    add(&account.counted_dropped, LoadRelaxed(&ring->counted_dropped));
    add(&account.values_dropped, LoadRelaxed(&ring->values_dropped));
    add(&account.samples_seen, LoadRelaxed(&ring->samples_seen));
    add(&account.samples_dropped, LoadRelaxed(&ring->samples_dropped));
    add(&account.api_calls_seen, LoadRelaxed(&ring->api_calls_seen));
    add(&account.api_calls_dropped, LoadRelaxed(&ring->api_calls_dropped));
    add(&account.memory_seen, LoadRelaxed(&ring->memory_seen));
    add(&account.memory_dropped, LoadRelaxed(&ring->memory_dropped));
  }
  account.inflight = static_cast<int64_t>(inflight) > 0 ? inflight : 0;
  return account;
}

}  // namespace rocattach
