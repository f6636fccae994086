// Writes JSON, commas included.
#ifndef ROCATTACH_USERSPACE_REPORT_JSON_WRITER_H_
#define ROCATTACH_USERSPACE_REPORT_JSON_WRITER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "userspace/report/text.h"

namespace rocattach {

// Calls in the order of the text: Object() … End(), Key() before each value in an
// object.
class JsonWriter {
 public:
  explicit JsonWriter(std::string* out) : out_(out) {}

  void Object() { Open('{'); }
  void Array() { Open('['); }
  void EndObject() { Close('}'); }
  void EndArray() { Close(']'); }
  void Key(absl::string_view key) {
    Comma();
    AppendJsonString(key, out_);
    out_->push_back(':');
    first_ = true;  // no comma before the value
  }
  void Number(uint64_t value) { Raw(absl::StrCat(value)); }
  void Signed(int64_t value) { Raw(absl::StrCat(value)); }
  void Real(double value) { Raw(absl::StrFormat("%.6g", value)); }
  // All digits; null for what is no number or is not there.
  void Exact(std::optional<double> value) {
    Raw(value.has_value() ? ExactNumber(*value) : "null");
  }
  void Boolean(bool value) { Raw(value ? "true" : "false"); }
  void Text(absl::string_view value) {
    Comma();
    AppendJsonString(value, out_);
  }
  // A value that is JSON already.
  void Raw(absl::string_view json) {
    Comma();
    out_->append(json.data(), json.size());
  }

  void Field(absl::string_view key, uint64_t value) {
    Key(key);
    Number(value);
  }
  void Field(absl::string_view key, absl::string_view value) {
    Key(key);
    Text(value);
  }
  void Flag(absl::string_view key, bool value) {
    Key(key);
    Boolean(value);
  }

 private:
  void Comma() {
    if (!first_) out_->push_back(',');
    first_ = false;
  }
  void Open(char bracket) {
    Comma();
    out_->push_back(bracket);
    first_ = true;
  }
  void Close(char bracket) {
    out_->push_back(bracket);
    first_ = false;
  }

  std::string* out_;
  bool first_ = true;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_JSON_WRITER_H_
