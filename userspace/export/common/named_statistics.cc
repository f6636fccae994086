#include "userspace/export/common/named_statistics.h"

namespace rocattach {

DurationStatistics* NamedStatistics::Of(absl::string_view name) {
  const auto found = names_.find(name);
  if (found != names_.end()) return &found->second;
  return &names_[std::string(names_.size() < kMaxNames ? name : kOtherNames)];
}

DurationStatistics NamedStatistics::Total() const {
  DurationStatistics total;
  for (const auto& [name, statistics] : names_) total.Merge(statistics);
  return total;
}

}  // namespace rocattach
