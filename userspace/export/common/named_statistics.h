// Statistics of durations, by name.
#ifndef ROCATTACH_USERSPACE_EXPORT_COMMON_NAMED_STATISTICS_H_
#define ROCATTACH_USERSPACE_EXPORT_COMMON_NAMED_STATISTICS_H_

#include <cstddef>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "userspace/base/duration_statistics.h"

namespace rocattach {

class NamedStatistics {
 public:
  using Names = std::map<std::string, DurationStatistics, std::less<>>;

  // Names beyond this number are counted under one name.
  static constexpr size_t kMaxNames = size_t{1} << 18;
  static constexpr absl::string_view kOtherNames = "(other names)";

  // The entry of a name; it stays valid.
  DurationStatistics* Of(absl::string_view name);
  const Names& names() const { return names_; }
  // All names together.
  DurationStatistics Total() const;

 private:
  Names names_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_COMMON_NAMED_STATISTICS_H_
