// Plausibility of the numbers in a collector's memory. A broken or malicious target
// must not affect others: its numbers are excluded from all sums, and it is no longer
// read.
#ifndef ROCATTACH_USERSPACE_RECORD_DRAIN_BELIEF_H_
#define ROCATTACH_USERSPACE_RECORD_DRAIN_BELIEF_H_

#include <cstdint>
#include <string>

#include "userspace/record/drain/collector_memory.h"

namespace rocattach {

struct Evidence {
  CollectorAccount claims;
  bool readable = true;   // no read has failed
  bool all_rings = true;  // `claims` covers every ring that has been written to
  bool dictionary_ok = true;
  uint64_t taken = 0;        // valid dispatches and copies
  uint64_t invalid = 0;      // invalid dispatches and copies
  uint64_t nonsense = 0;     // records and dictionary entries of unknown kind
  uint64_t lifetime_ns = 0;  // of the process
  // Maximum number of operations between "seen" and "taken": in the in-flight table
  // and in the rings.
  uint64_t room = 0;
};

// Returns why the numbers are implausible; empty if they are plausible.
std::string WhyNotBelievable(const Evidence& evidence);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRAIN_BELIEF_H_
