#include "userspace/base/process_stat.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace rocattach {

absl::StatusOr<uint64_t> StartTicksIn(absl::string_view stat) {
  // The command may contain blanks and parentheses: the last ')' ends it. The start
  // time is the 20th field after it.
  const size_t end = stat.rfind(')');
  uint64_t ticks = 0;
  if (end != absl::string_view::npos) {
    const std::vector<absl::string_view> fields =
        absl::StrSplit(stat.substr(end + 1), absl::ByAnyChar(" \n"), absl::SkipEmpty());
    if (fields.size() >= 20 && absl::SimpleAtoi(fields[19], &ticks)) return ticks;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no start time in the ", stat.size(), " bytes of a process's stat"));
}

}  // namespace rocattach
