// The share of a draining round that each target may take.
#ifndef ROCATTACH_USERSPACE_RECORD_DRAIN_DRAIN_SHARES_H_
#define ROCATTACH_USERSPACE_RECORD_DRAIN_DRAIN_SHARES_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"

namespace rocattach {

// Each user gets an equal share, divided equally among the user's targets. Only targets
// that could not be drained in one round count; the others cost little. Not
// thread-safe.
class DrainShares {
 public:
  // Maximum cost of a round in which several targets have more than that waiting, see
  // Target::Drain: a dispatch costs 1, and takes about 100 ns. A ring holds 16,384
  // dispatches, so it does not fill up between two rounds of this length.
  static constexpr uint64_t kRoundCost = 65'536;
  static constexpr uint64_t kLeastShare = 256;

  void Clear() { behind_.clear(); }
  // Adds a target of user `uid` in which more waits than one round could take.
  void Add(uint32_t uid) { ++behind_[uid]; }
  // Maximum cost of one target of user `uid`.
  uint64_t Of(uint32_t uid) const;

 private:
  // Number of targets that are behind, by user; only users that have any.
  absl::flat_hash_map<uint32_t, uint32_t> behind_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRAIN_DRAIN_SHARES_H_
