#include "userspace/report/text.h"

#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "userspace/stream/utf8.h"

namespace rocattach {
namespace {

uint32_t CodePoint(absl::string_view character) {
  uint8_t first = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return first;
  uint32_t code = first & (0x7f >> character.size());
  for (char byte : character.substr(1)) code = code << 6 | (byte & 0x3f);
  return code;
}

bool IsHarmless(uint32_t code) {
  if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return false;
  // Line separators, direction marks and overrides, and the byte order mark.
  if (code >= 0x2028 && code <= 0x202e) return false;
  if (code >= 0x2066 && code <= 0x2069) return false;
  return code != 0x200e && code != 0x200f && code != 0xfeff;
}

// CamelCase as UPPER_CASE: protobuf's convention for the prefix of enum values.
std::string UpperSnake(absl::string_view camel) {
  std::string out;
  for (size_t i = 0; i < camel.size(); ++i) {
    if (i > 0 && absl::ascii_isupper(static_cast<unsigned char>(camel[i]))) out += '_';
    out += absl::ascii_toupper(static_cast<unsigned char>(camel[i]));
  }
  return out;
}

}  // namespace

std::string TerminalSafe(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    size_t bytes = Utf8CharacterBytes(text);
    if (bytes == 0) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<uint8_t>(text[0]));
      text.remove_prefix(1);
      continue;
    }
    uint32_t code = CodePoint(text.substr(0, bytes));
    if (IsHarmless(code)) {
      out.append(text.data(), bytes);
    } else if (code < 0x100) {
      absl::StrAppendFormat(&out, "\\x%02x", code);
    } else {
      absl::StrAppendFormat(&out, "\\u{%x}", code);
    }
    text.remove_prefix(bytes);
  }
  return out;
}

std::string ShortEnumName(const google::protobuf::EnumDescriptor* type, int number) {
  const auto* value = type->FindValueByNumber(number);
  if (value == nullptr) return absl::StrCat(number);
  absl::string_view name = value->name();
  absl::ConsumePrefix(&name, absl::StrCat(UpperSnake(type->name()), "_"));
  return absl::AsciiStrToLower(name);
}

}  // namespace rocattach
