#include "userspace/stream/utf8.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <vector>

namespace rocattach {
namespace {

constexpr absl::string_view kReplacement = "\xef\xbf\xbd";

bool IsClean(absl::string_view text, size_t limit) {
  if (text.size() > limit) return false;
  while (!text.empty()) {
    size_t bytes = Utf8CharacterBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

void SanitizeStringField(size_t limit, const google::protobuf::FieldDescriptor* field,
                         google::protobuf::Message* message) {
  const google::protobuf::Reflection* reflection = message->GetReflection();
  std::string scratch;
  if (!field->is_repeated()) {
    const std::string& text = reflection->GetStringReference(*message, field, &scratch);
    if (!IsClean(text, limit)) {
      reflection->SetString(message, field, SanitizeUtf8(text, limit));
    }
    return;
  }
  for (int i = 0; i < reflection->FieldSize(*message, field); ++i) {
    const std::string& text =
        reflection->GetRepeatedStringReference(*message, field, i, &scratch);
    if (!IsClean(text, limit)) {
      reflection->SetRepeatedString(message, field, i, SanitizeUtf8(text, limit));
    }
  }
}

}  // namespace

size_t Utf8CharacterBytes(absl::string_view text) {
  if (text.empty()) return 0;
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  uint8_t first = byte(0);
  if (first < 0x80) return 1;
  size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // The second byte excludes overlong forms, surrogates and values beyond U+10FFFF.
  uint8_t second = byte(1);
  if (first == 0xe0 && second < 0xa0) return 0;
  if (first == 0xed && second > 0x9f) return 0;
  if (first == 0xf0 && second < 0x90) return 0;
  if (first == 0xf4 && second > 0x8f) return 0;
  return length;
}

std::string SanitizeUtf8(absl::string_view text, size_t limit) {
  std::string out;
  while (!text.empty()) {
    size_t bytes = Utf8CharacterBytes(text);
    absl::string_view piece = bytes == 0 ? kReplacement : text.substr(0, bytes);
    if (out.size() + piece.size() > limit) break;
    out.append(piece.data(), piece.size());
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return out;
}

void SanitizeStrings(size_t limit, google::protobuf::Message* message) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection* reflection = message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->type() == FieldDescriptor::TYPE_STRING) {
      SanitizeStringField(limit, field, message);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!field->is_repeated()) {
        SanitizeStrings(limit, reflection->MutableMessage(message, field));
        continue;
      }
      for (int i = 0; i < reflection->FieldSize(*message, field); ++i) {
        SanitizeStrings(limit, reflection->MutableRepeatedMessage(message, field, i));
      }
    }
  }
}

}  // namespace rocattach
