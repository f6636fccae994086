#include "userspace/session/number_ranges.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "userspace/base/session_status.h"

namespace rocattach {

std::vector<NumberRange> Normalize(std::vector<NumberRange> ranges) {
  std::sort(
      ranges.begin(), ranges.end(),
      [](const NumberRange& a, const NumberRange& b) { return a.first < b.first; });
  std::vector<NumberRange> joined;
  for (const NumberRange& range : ranges) {
    if (!joined.empty() &&
        (joined.back().last == UINT64_MAX || range.first <= joined.back().last + 1)) {
      joined.back().last = std::max(joined.back().last, range.last);
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

bool InRanges(const std::vector<NumberRange>& ranges, uint64_t value) {
  if (ranges.empty()) return true;
  auto after = std::upper_bound(
      ranges.begin(), ranges.end(), value,
      [](uint64_t v, const NumberRange& range) { return v < range.first; });
  return after != ranges.begin() && value <= (after - 1)->last;
}

absl::StatusOr<std::vector<NumberRange>> ParseRanges(absl::string_view text) {
  auto error = [&](absl::string_view what) {
    return SessionError(SessionStatus::kFilterDataCorrupted,
                        absl::StrCat("ranges \"", text, "\": ", what));
  };
  // Brackets only group; they must match and not nest.
  std::string plain;
  bool inside = false;
  for (char c : text) {
    if (c == '[' || c == ']') {
      if (inside == (c == '[')) return error("brackets do not match");
      inside = !inside;
    } else {
      plain.push_back(c);
    }
  }
  if (inside) return error("brackets do not match");
  std::vector<NumberRange> ranges;
  for (absl::string_view part : absl::StrSplit(plain, ',')) {
    part = absl::StripAsciiWhitespace(part);
    NumberRange range;
    const size_t dash = part.find('-');
    if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(part.substr(0, dash)),
                          &range.first)) {
      return error("expected numbers and ranges such as 1-10,50");
    }
    if (dash == absl::string_view::npos) {
      range.last = range.first;
    } else if (absl::string_view last =
                   absl::StripAsciiWhitespace(part.substr(dash + 1));
               !last.empty() && !absl::SimpleAtoi(last, &range.last)) {
      return error("expected numbers and ranges such as 1-10,50");
    }
    if (range.first == 0) return error("counting starts at 1");
    if (range.last < range.first) return error("a range runs backwards");
    ranges.push_back(range);
  }
  return Normalize(std::move(ranges));
}

}  // namespace rocattach
