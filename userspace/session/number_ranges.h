// Lists of inclusive ranges, as in dispatch filters.
#ifndef ROCATTACH_USERSPACE_SESSION_NUMBER_RANGES_H_
#define ROCATTACH_USERSPACE_SESSION_NUMBER_RANGES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// Sorts ranges, and joins those that touch or overlap. None may run backwards.
std::vector<NumberRange> Normalize(std::vector<NumberRange> ranges);

// True if `value` lies in one of `ranges` (normalized); an empty list contains
// everything.
bool InRanges(const std::vector<NumberRange>& ranges, uint64_t value);

// "3", "2-5", "[1-3],[7]", "[1, 3-5]" and "9-" (to the end), as rocprofv3 writes them.
// FILTER_DATA_CORRUPTED otherwise; numbers count from 1.
absl::StatusOr<std::vector<NumberRange>> ParseRanges(absl::string_view text);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_NUMBER_RANGES_H_
