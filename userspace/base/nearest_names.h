// "Did you mean": the names that are closest to a mistyped one.
#ifndef ROCATTACH_USERSPACE_BASE_NEAREST_NAMES_H_
#define ROCATTACH_USERSPACE_BASE_NEAREST_NAMES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rocattach {

// Number of insertions, deletions, replacements and swaps of neighbours that turn `a`
// into `b`, ignoring case; `limit` + 1 if it is more than `limit`.
size_t EditDistance(absl::string_view a, absl::string_view b, size_t limit);

// Up to `count` of `names`, nearest first, none farther than a third of the length. If
// none is that near, those that contain `name` or are contained in it.
std::vector<std::string> NearestNames(absl::string_view name,
                                      const std::vector<std::string>& names,
                                      size_t count);

// "; did you mean A, B or C?", or nothing.
std::string DidYouMean(const std::vector<std::string>& names);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_NEAREST_NAMES_H_
