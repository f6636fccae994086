#include "userspace/export/common/json_text.h"

#include <algorithm>
#include <cmath>

#include "userspace/stream/utf8.h"

namespace rocattach {
namespace {

constexpr char kHex[] = "0123456789abcdef";

void AppendEscaped(char c, std::string* out) {
  switch (c) {
    case '"':
      out->append("\\\"");
      return;
    case '\\':
      out->append("\\\\");
      return;
    case '\n':
      out->append("\\n");
      return;
    case '\t':
      out->append("\\t");
      return;
    default:
      out->append("\\u00");
      out->push_back(kHex[static_cast<unsigned char>(c) >> 4]);
      out->push_back(kHex[c & 15]);
  }
}

void AppendValid(absl::string_view text, std::string* out) {
  out->push_back('"');
  size_t plain = 0;  // start of the text not yet appended
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) continue;
    out->append(text.data() + plain, i - plain);
    AppendEscaped(text[i], out);
    plain = i + 1;
  }
  out->append(text.data() + plain, text.size() - plain);
  out->push_back('"');
}

}  // namespace

void AppendJsonString(absl::string_view text, std::string* out) {
  const bool ascii =
      std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
  if (ascii) {
    AppendValid(text, out);
  } else {
    // Each replaced byte becomes three.
    AppendValid(SanitizeUtf8(text, text.size() * 3), out);
  }
}

void AppendReal(double number, std::string* out) {
  if (!std::isfinite(number)) {
    out->append("null");
    return;
  }
  char digits[400];
  const bool whole = number == std::floor(number) && std::fabs(number) < 1e15;
  const std::to_chars_result end =
      whole
          ? std::to_chars(digits, digits + sizeof(digits), static_cast<int64_t>(number))
          : std::to_chars(digits, digits + sizeof(digits), number);
  out->append(digits, static_cast<size_t>(end.ptr - digits));
}

JsonObject& JsonObject::Signed(absl::string_view key, int64_t number) {
  Key(key);
  char digits[24];
  char* end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
  out_->append(digits, static_cast<size_t>(end - digits));
  return *this;
}

}  // namespace rocattach
