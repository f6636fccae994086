// Counts of what a collector has seen, recorded and lost.
#ifndef ROCATTACH_USERSPACE_RECORD_DRAIN_COLLECTOR_ACCOUNT_H_
#define ROCATTACH_USERSPACE_RECORD_DRAIN_COLLECTOR_ACCOUNT_H_

#include <cstdint>

#include "absl/types/span.h"
#include "userspace/abi/shared_memory.h"

namespace rocattach {

// Counts of what was produced and lost inside the target so far.
struct CollectorAccount {
  uint64_t produced = 0;      // records published in all rings
  uint64_t delivered = 0;     // of these, read by the service
  uint64_t ring_dropped = 0;  // dispatches and copies that found their ring full
  uint64_t other_dropped = 0;
  uint64_t dispatches_seen = 0;
  uint64_t copies_seen = 0;
  uint64_t dispatches_untimed = 0;
  uint64_t packets_unseen = 0;
  uint64_t inflight = 0;
  uint64_t dictionary_dropped = 0;
  uint64_t counted_seen = 0;     // dispatches that were to have counter values
  uint64_t counted_dropped = 0;  // … dropped because there was no room for values
  uint64_t values_dropped = 0;   // … whose values never arrived
  uint64_t samples_seen = 0;
  uint64_t samples_dropped = 0;
  uint64_t api_calls_seen = 0;
  uint64_t api_calls_dropped = 0;
  uint64_t memory_seen = 0;  // allocations and so on
  uint64_t memory_dropped = 0;
  uint64_t sampled_out = 0;    // dispatches counted but not recorded; see SetSampling()
  uint64_t own_ns = 0;         // time in the collector's own code, from samples
  uint64_t corrupt_rings = 0;  // rings with impossible positions, no longer read

  // The increase since `before`, an earlier account of the same process. A target may
  // have written anything, so no count is below zero. Operations in flight, dictionary
  // entries dropped and corrupt rings are the current numbers.
  CollectorAccount Since(const CollectorAccount& before) const;
};

// Reads a collector's account of these rings from its memory, without `delivered` and
// `corrupt_rings`, which only the reader knows. The target may change it meanwhile.
CollectorAccount ReadAccount(const rocattach_control& control,
                             absl::Span<const rocattach_ring* const> rings);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRAIN_COLLECTOR_ACCOUNT_H_
