// Whether what a collector's memory says can be true. A target that is broken, or that
// lies, must cost nobody but itself: its claims count in no sum, and it is not read on.
#ifndef ROCATTACH_USERSPACE_RECORD_BELIEF_H_
#define ROCATTACH_USERSPACE_RECORD_BELIEF_H_

#include <cstdint>
#include <string>

#include "userspace/record/collector_memory.h"

namespace rocattach {

struct Evidence {
  CollectorAccount claims;
  bool readable = true;   // nothing failed to be read
  bool all_rings = true;  // `claims` is of every ring that anybody has written to
  bool dictionary_ok = true;
  uint64_t taken = 0;        // dispatches and copies that made sense
  uint64_t invalid = 0;      // those that made none
  uint64_t nonsense = 0;     // records and dictionary entries of no known kind
  uint64_t lifetime_ns = 0;  // of the process
  // How many operations can be between "seen" and "taken": in the table of those in
  // flight, in the rings.
  uint64_t room = 0;
};

// Why it cannot be true; empty if it can.
std::string WhyNotBelievable(const Evidence& evidence);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_BELIEF_H_
