// Writes JSON as text, for millions of records.
#ifndef ROCATTACH_USERSPACE_EXPORT_COMMON_JSON_TEXT_H_
#define ROCATTACH_USERSPACE_EXPORT_COMMON_JSON_TEXT_H_

#include <charconv>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace rocattach {

// Appends `text` in quotes. Bytes that are not UTF-8 become U+FFFD.
void AppendJsonString(absl::string_view text, std::string* out);

inline void AppendNumber(uint64_t number, std::string* out) {
  char digits[20];
  char* end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
  out->append(digits, static_cast<size_t>(end - digits));
}
// Appends as many digits as it takes to read the same number back; whole numbers
// without a point; infinities and NaN as null.
void AppendReal(double number, std::string* out);

// Writes the members of an object; the caller writes its braces with Begin and End.
class JsonObject {
 public:
  explicit JsonObject(std::string* out) : out_(out) {}

  // `open` may have a key before its brace.
  JsonObject& Begin(absl::string_view open = "{") {
    out_->append(open.data(), open.size());
    first_ = true;
    return *this;
  }
  JsonObject& End(absl::string_view close = "}") {
    out_->append(close.data(), close.size());
    first_ = false;
    return *this;
  }
  JsonObject& Number(absl::string_view key, uint64_t number) {
    Key(key);
    AppendNumber(number, out_);
    return *this;
  }
  JsonObject& Signed(absl::string_view key, int64_t number);
  JsonObject& Real(absl::string_view key, double number) {
    Key(key);
    AppendReal(number, out_);
    return *this;
  }
  JsonObject& Boolean(absl::string_view key, bool value) {
    return Raw(key, value ? "true" : "false");
  }
  JsonObject& Text(absl::string_view key, absl::string_view text) {
    Key(key);
    AppendJsonString(text, out_);
    return *this;
  }
  // `json`: a complete value.
  JsonObject& Raw(absl::string_view key, absl::string_view json) {
    Key(key);
    out_->append(json.data(), json.size());
    return *this;
  }
  // Begins a nested object; End() ends it.
  JsonObject& Object(absl::string_view key) {
    Key(key);
    return Begin();
  }

 private:
  // Keys need no escapes.
  void Key(absl::string_view key) {
    if (!first_) out_->push_back(',');
    first_ = false;
    out_->push_back('"');
    out_->append(key.data(), key.size());
    out_->append("\":", 2);
  }

  std::string* out_;
  bool first_ = true;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_COMMON_JSON_TEXT_H_
