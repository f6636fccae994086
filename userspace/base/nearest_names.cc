#include "userspace/base/nearest_names.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rocattach {
namespace {

constexpr size_t kLongestName = 256;

}  // namespace

size_t EditDistance(absl::string_view a, absl::string_view b, size_t limit) {
  const size_t difference =
      a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (difference > limit || a.size() > kLongestName || b.size() > kLongestName) {
    return limit + 1;
  }
  auto same = [&](size_t i, size_t j) {
    return absl::ascii_tolower(static_cast<unsigned char>(a[i])) ==
           absl::ascii_tolower(static_cast<unsigned char>(b[j]));
  };
  // Rows i-2, i-1 and i of the usual table.
  std::vector<size_t> two_back(b.size() + 1), back(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) back[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    size_t best = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min(
          {back[j] + 1, row[j - 1] + 1, back[j - 1] + (same(i - 1, j - 1) ? 0 : 1)});
      if (i > 1 && j > 1 && same(i - 1, j - 2) && same(i - 2, j - 1)) {
        row[j] = std::min(row[j], two_back[j - 2] + 1);
      }
      best = std::min(best, row[j]);
    }
    if (best > limit) return limit + 1;
    std::swap(two_back, back);
    std::swap(back, row);
  }
  return std::min(back[b.size()], limit + 1);
}

std::vector<std::string> NearestNames(absl::string_view name,
                                      const std::vector<std::string>& names,
                                      size_t count) {
  const size_t limit = std::max<size_t>(1, name.size() / 3);
  std::vector<std::pair<size_t, const std::string*>> found;
  for (const std::string& candidate : names) {
    const size_t distance = EditDistance(name, candidate, limit);
    if (distance <= limit) found.emplace_back(distance, &candidate);
  }
  if (found.empty() && name.size() >= 3) {
    const std::string wanted = absl::AsciiStrToLower(name);
    for (const std::string& candidate : names) {
      const std::string known = absl::AsciiStrToLower(candidate);
      if (absl::StrContains(known, wanted) || absl::StrContains(wanted, known)) {
        found.emplace_back(candidate.size(), &candidate);
      }
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> result;
  for (const auto& [distance, candidate] : found) {
    if (result.size() == count) break;
    if (std::find(result.begin(), result.end(), *candidate) == result.end()) {
      result.push_back(*candidate);
    }
  }
  return result;
}

std::string DidYouMean(const std::vector<std::string>& names) {
  if (names.empty()) return "";
  if (names.size() == 1) return absl::StrCat("; did you mean ", names[0], "?");
  const std::vector<std::string> most(names.begin(), names.end() - 1);
  return absl::StrCat("; did you mean ", absl::StrJoin(most, ", "), " or ",
                      names.back(), "?");
}

}  // namespace rocattach
