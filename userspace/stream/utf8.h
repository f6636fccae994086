// Turns text from targets, which may be any bytes, into UTF-8 for protobuf strings.
#ifndef ROCATTACH_USERSPACE_STREAM_UTF8_H_
#define ROCATTACH_USERSPACE_STREAM_UTF8_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace google::protobuf {
class Message;
}

namespace rocattach {

// Length in bytes of the well-formed UTF-8 character at the front of `text`, 0 if there
// is none (overlong forms, surrogates and values above U+10FFFF are not well-formed).
size_t Utf8CharacterBytes(absl::string_view text);

// `text` with each byte that is not part of well-formed UTF-8 replaced by U+FFFD, cut
// at a character boundary to at most `limit` bytes.
std::string SanitizeUtf8(absl::string_view text, size_t limit);

// Applies SanitizeUtf8 to every string field of `message`, nested ones included.
void SanitizeStrings(size_t limit, google::protobuf::Message* message);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_UTF8_H_
