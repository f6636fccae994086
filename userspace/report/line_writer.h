// One line per record: a JSON object, or key=value pairs for people.
#ifndef ROCATTACH_USERSPACE_REPORT_LINE_WRITER_H_
#define ROCATTACH_USERSPACE_REPORT_LINE_WRITER_H_

#include <google/protobuf/message.h>

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace rocattach {

class LineWriter {
 public:
  enum class Style { kText, kJson };

  // Lines are appended to *out.
  LineWriter(Style style, std::string* out) : style_(style), out_(out) {}

  // A line of the given type; fields follow until End().
  void Begin(absl::string_view type);
  void End();

  void Number(absl::string_view key, uint64_t value);
  void Signed(absl::string_view key, int64_t value);
  // With all digits; infinities and what is no number as null.
  void Real(absl::string_view key, double value);
  void Boolean(absl::string_view key, bool value);
  void Text(absl::string_view key, absl::string_view value);
  void Triple(absl::string_view key, const std::array<uint32_t, 3>& values);

  // Every field of a message by its name: enums by their short names, bytes in
  // hexadecimal, nested messages as objects (in text: with dotted keys), descriptors
  // not at all. Text leaves out what is not set; JSON always has all keys but those of
  // absent messages. A field "type" of the line's message is "agent_type" (of an
  // Agent): "type" says what the line is.
  void Fields(const google::protobuf::Message& message);

  // A message as a JSON object by itself, without type and line end.
  void Object(const google::protobuf::Message& message) { Nested("", message); }

 private:
  void Key(absl::string_view key);
  void FieldsOf(const google::protobuf::Message& message, absl::string_view type_key);
  void Field(const google::protobuf::Message& message,
             const google::protobuf::FieldDescriptor* field, absl::string_view key);
  void Element(const google::protobuf::Message& message,
               const google::protobuf::FieldDescriptor* field, int index);
  void Repeated(const google::protobuf::Message& message,
                const google::protobuf::FieldDescriptor* field, absl::string_view key);
  void Nested(absl::string_view key, const google::protobuf::Message& message);
  void Value(absl::string_view text);

  Style style_;
  std::string* out_;
  std::string prefix_;  // of keys, in text
  bool first_ = true;   // of the current object's fields
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_LINE_WRITER_H_
