#include "userspace/record/drain/drain_shares.h"

#include <algorithm>

namespace rocattach {

uint64_t DrainShares::Of(uint32_t uid) const {
  const auto own = behind_.find(uid);
  const uint64_t users = behind_.size() + (own == behind_.end() ? 1 : 0);
  const uint64_t targets = own == behind_.end() ? 1 : own->second;
  return std::max(kLeastShare, kRoundCost / users / targets);
}

}  // namespace rocattach
