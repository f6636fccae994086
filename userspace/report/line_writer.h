// One line per record: a JSON object, or key=value pairs for people.
#ifndef ROCATTACH_USERSPACE_REPORT_LINE_WRITER_H_
#define ROCATTACH_USERSPACE_REPORT_LINE_WRITER_H_

#include <google/protobuf/message.h>

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "userspace/report/message_json.h"

namespace rocattach {

class LineWriter {
 public:
  enum class Style { kText, kJson };

  // Lines are appended to *out.
  LineWriter(Style style, std::string* out) : style_(style), out_(out) {}

  // A line of the given type; fields follow until End().
  void Begin(absl::string_view type);
  void End();

  void Number(absl::string_view key, uint64_t value) { Add(key, value); }
  // With all digits; infinities and NaN as null.
  void Real(absl::string_view key, double value) { Add(key, NumberJson(value)); }
  void Boolean(absl::string_view key, bool value) { Add(key, value); }
  void Text(absl::string_view key, absl::string_view value) {
    Add(key, std::string(value));
  }
  // In text style: 64x1x1.
  void Triple(absl::string_view key, const std::array<uint32_t, 3>& values);

  // Any JSON value.
  void Value(absl::string_view key, Json value) { Add(key, std::move(value)); }

  // Every field of a message, see MessageJson(). In text nested messages have dotted
  // keys, and unset fields are omitted. A field "type" of the message gets another key,
  // "agent_type" for an Agent, because "type" is the type of the line.
  void Fields(const google::protobuf::Message& message);

 private:
  void Add(absl::string_view key, Json value);
  void AddText(absl::string_view key, const Json& value);
  std::string TextOf(const Json& value) const;

  Style style_;
  std::string* out_;
  Json line_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_LINE_WRITER_H_
