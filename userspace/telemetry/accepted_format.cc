#include "userspace/telemetry/accepted_format.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace rocattach {
namespace {

// A media range of the header.
struct Range {
  absl::string_view type;
  absl::string_view proto, encoding;
  double quality = 1;
};

absl::string_view Unquoted(absl::string_view value) {
  value = absl::StripAsciiWhitespace(value);
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
    return value.substr(1, value.size() - 2);
  }
  return value;
}

Range ParseRange(absl::string_view text) {
  Range range;
  for (absl::string_view part : absl::StrSplit(text, ';')) {
    part = absl::StripAsciiWhitespace(part);
    if (range.type.data() == nullptr) {
      range.type = part;
      continue;
    }
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    const absl::string_view name = absl::StripAsciiWhitespace(pair.first);
    const absl::string_view value = Unquoted(pair.second);
    if (absl::EqualsIgnoreCase(name, "proto")) range.proto = value;
    if (absl::EqualsIgnoreCase(name, "encoding")) range.encoding = value;
    if (!absl::EqualsIgnoreCase(name, "q")) continue;
    // Also turns what is no number into 0.
    const bool valid = absl::SimpleAtod(value, &range.quality) && range.quality >= 0 &&
                       range.quality <= 1;
    if (!valid) range.quality = 0;
  }
  return range;
}

bool IsProtobuf(const Range& range) {
  return absl::EqualsIgnoreCase(range.type, "application/vnd.google.protobuf") &&
         range.proto == "io.prometheus.client.MetricFamily" &&
         range.encoding == "delimited";
}

}  // namespace

bool PrefersPrometheusProtobuf(absl::string_view accept) {
  double protobuf = 0, text = 0;
  for (const absl::string_view part : absl::StrSplit(accept, ',')) {
    const Range range = ParseRange(part);
    if (IsProtobuf(range)) protobuf = std::max(protobuf, range.quality);
    // Whoever takes everything takes text.
    if (absl::EqualsIgnoreCase(range.type, "text/plain") || range.type == "text/*" ||
        range.type == "*/*") {
      text = std::max(text, range.quality);
    }
  }
  return protobuf > text;
}

}  // namespace rocattach
