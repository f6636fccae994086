#include "userspace/attribution/kube_names.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace rocattach {
namespace {

constexpr size_t kMostLabelBytes = 63, kMostPodNameBytes = 253, kMostUidBytes = 36,
                 kContainerIdDigits = 64;

bool IsHexDigit(char c) {
  return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
}

// True if `text` is a valid part of a name; dots separate the parts.
bool IsPart(absl::string_view text) {
  if (text.empty() || text.front() == '-' || text.back() == '-') return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
           (c >= 'a' && c <= 'z') || c == '-';
  });
}

}  // namespace

bool IsKubeLabel(absl::string_view text) {
  return text.size() <= kMostLabelBytes && IsPart(text);
}

bool IsKubeName(absl::string_view text) {
  if (text.size() > kMostPodNameBytes) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
  return std::all_of(parts.begin(), parts.end(), IsPart);
}

bool IsPodUidText(absl::string_view text) {
  return !text.empty() && text.size() <= kMostUidBytes &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return IsHexDigit(c) || c == '-'; });
}

bool IsContainerIdText(absl::string_view text) {
  return text.size() == kContainerIdDigits &&
         std::all_of(text.begin(), text.end(), IsHexDigit);
}

}  // namespace rocattach
