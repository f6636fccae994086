#include "userspace/report/line_writer.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/report/text.h"

namespace rocattach {

void LineWriter::Begin(absl::string_view type) {
  if (style_ == Style::kText) {
    absl::StrAppend(out_, type);
    return;
  }
  line_ = Json::object();
  Text("type", type);
}

void LineWriter::End() {
  if (style_ == Style::kJson) out_->append(DumpJson(line_));
  out_->push_back('\n');
}

void LineWriter::Add(absl::string_view key, Json value) {
  if (style_ == Style::kText) return AddText(key, value);
  line_.emplace(std::string(key), std::move(value));
}

void LineWriter::AddText(absl::string_view key, const Json& value) {
  if (value.is_object()) {
    for (const auto& [name, field] : value.items()) {
      AddText(absl::StrCat(key, ".", name), field);
    }
  } else if (value.is_array() && !value.empty() && value.front().is_object()) {
    for (size_t i = 0; i < value.size(); ++i) {
      AddText(absl::StrCat(key, "[", i, "]"), value[i]);
    }
  } else {
    absl::StrAppend(out_, " ", key, "=", TextOf(value));
  }
}

std::string LineWriter::TextOf(const Json& value) const {
  if (value.is_array()) {
    std::vector<std::string> elements;
    for (const Json& element : value) elements.push_back(TextOf(element));
    return absl::StrCat("[", absl::StrJoin(elements, ","), "]");
  }
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  const bool plain = !text.empty() && text.find_first_of(" \t\"'=\\") == text.npos;
  const std::string safe = TerminalSafe(text);
  return plain ? safe : absl::StrCat("\"", safe, "\"");
}

void LineWriter::Triple(absl::string_view key, const std::array<uint32_t, 3>& values) {
  if (style_ == Style::kJson) {
    Add(key, values);
  } else {
    absl::StrAppend(out_, " ", key, "=", absl::StrJoin(values, "x"));
  }
}

void LineWriter::Fields(const google::protobuf::Message& message) {
  const std::string type_key =
      absl::StrCat(absl::AsciiStrToLower(message.GetDescriptor()->name()), "_type");
  const auto unset =
      style_ == Style::kText ? UnsetFields::kOmitted : UnsetFields::kIncluded;
  Json fields = MessageJson(message, unset, type_key);
  for (auto& [key, value] : fields.items()) Add(key, std::move(value));
}

}  // namespace rocattach
