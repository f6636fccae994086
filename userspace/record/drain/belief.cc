#include "userspace/record/drain/belief.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "userspace/base/human.h"

namespace rocattach {
namespace {

// This many invalid records are always tolerated: they indicate a flaw in the
// collector, not a flood.
constexpr uint64_t kFewInvalid = 1000;
// Otherwise, one invalid record is tolerated per this many valid ones.
constexpr uint64_t kSensiblePerInvalid = 16;
// Upper limits: operations per nanosecond, and an allowance for a process that has just
// started.
constexpr uint64_t kMostPerNs = 1;
constexpr uint64_t kMostAtOnce = 1'000'000'000;
// Allowance for operations that threads are capturing and that are in no table yet.
constexpr uint64_t kThreads = 65'536;

}  // namespace

std::string WhyNotBelievable(const Evidence& evidence) {
  const CollectorAccount& claims = evidence.claims;
  if (!evidence.readable) return "its memory can no longer be read";
  if (claims.corrupt_rings > 0) {
    return absl::StrCat("the positions of ", claims.corrupt_rings,
                        " of its rings are impossible");
  }
  if (!evidence.dictionary_ok) return "its dictionary is damaged";
  const uint64_t senseless = evidence.invalid + evidence.nonsense;
  if (senseless > kFewInvalid && senseless > evidence.taken / kSensiblePerInvalid) {
    return absl::StrCat(HumanCount(senseless), " of its records are invalid");
  }
  const uint64_t most = evidence.lifetime_ns * kMostPerNs + kMostAtOnce;
  for (uint64_t claim :
       {claims.dispatches_seen, claims.copies_seen, claims.ring_dropped,
        claims.other_dropped, claims.packets_unseen, claims.dictionary_dropped,
        claims.counted_seen, claims.counted_dropped, claims.values_dropped,
        claims.samples_seen, claims.samples_dropped, claims.api_calls_seen,
        claims.api_calls_dropped, claims.memory_seen, claims.memory_dropped,
        claims.sampled_out}) {
    if (claim > most) return absl::StrCat("it counts ", claim, " operations");
  }
  // None of these exceeds `most`, so sums do not overflow.
  const uint64_t seen = claims.dispatches_seen + claims.copies_seen;
  const uint64_t known = evidence.taken + evidence.invalid + claims.ring_dropped +
                         claims.other_dropped + claims.sampled_out;
  // An operation may be seen in a ring that is not read yet, and published in another.
  if (known > seen && evidence.all_rings) {
    return absl::StrCat("it has seen ", HumanCount(seen), " operations and delivered, ",
                        "lost or left out ", HumanCount(known));
  }
  if (seen > known && seen - known > evidence.room + kThreads) {
    return absl::StrCat("it has seen ", HumanCount(seen), " operations, and ",
                        HumanCount(seen - known), " of them are unaccounted for");
  }
  return "";
}

}  // namespace rocattach
