#include "userspace/push/name_value_list.h"

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace rocattach {
namespace {

// "%2C" as ','. False if a '%' is followed by something else than two digits.
bool PercentDecode(absl::string_view text, std::string* decoded) {
  decoded->clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded->push_back(text[i]);
      continue;
    }
    uint32_t byte = 0;
    if (i + 2 >= text.size() ||
        !absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 1])) ||
        !absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 2])) ||
        !absl::SimpleHexAtoi(text.substr(i + 1, 2), &byte)) {
      return false;
    }
    decoded->push_back(static_cast<char>(byte));
    i += 2;
  }
  return true;
}

}  // namespace

absl::StatusOr<NameValueList> ParseNameValueList(absl::string_view variable,
                                                 absl::string_view text) {
  NameValueList pairs;
  for (absl::string_view item : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(item, absl::MaxSplits('=', 1));
    const auto key = std::string(absl::StripAsciiWhitespace(parts.first));
    std::string value;
    if (key.empty() || !absl::StrContains(item, '=') ||
        !PercentDecode(absl::StripAsciiWhitespace(parts.second), &value)) {
      return absl::InvalidArgumentError(
          absl::StrCat(variable, ": not of the form NAME=VALUE,NAME=VALUE"));
    }
    pairs.emplace_back(key, std::move(value));
  }
  return pairs;
}

}  // namespace rocattach
