#include "userspace/report/line_writer.h"

#include <google/protobuf/descriptor.h>

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "userspace/report/text.h"

namespace rocattach {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void LineWriter::Begin(absl::string_view type) {
  if (style_ == Style::kJson) {
    out_->push_back('{');
    first_ = true;
    Text("type", type);
  } else {
    absl::StrAppend(out_, type);
    first_ = false;
  }
}

void LineWriter::End() {
  out_->append(style_ == Style::kJson ? "}\n" : "\n");
}

void LineWriter::Key(absl::string_view key) {
  if (style_ == Style::kJson) {
    absl::StrAppend(out_, first_ ? "\"" : ",\"", key, "\":");
    first_ = false;
  } else {
    absl::StrAppend(out_, " ", prefix_, key, "=");
  }
}

void LineWriter::Number(absl::string_view key, uint64_t value) {
  Key(key);
  absl::StrAppend(out_, value);
}

void LineWriter::Signed(absl::string_view key, int64_t value) {
  Key(key);
  absl::StrAppend(out_, value);
}

void LineWriter::Real(absl::string_view key, double value) {
  Key(key);
  out_->append(ExactNumber(value));
}

void LineWriter::Boolean(absl::string_view key, bool value) {
  Key(key);
  absl::StrAppend(out_, value ? "true" : "false");
}

void LineWriter::Value(absl::string_view text) {
  if (style_ == Style::kJson) {
    AppendJsonString(text, out_);
    return;
  }
  bool plain = !text.empty() && text.find_first_of(" \t\"'=\\") == text.npos;
  std::string safe = TerminalSafe(text);
  if (plain) {
    out_->append(safe);
  } else {
    absl::StrAppend(out_, "\"", safe, "\"");
  }
}

void LineWriter::Text(absl::string_view key, absl::string_view value) {
  Key(key);
  Value(value);
}

void LineWriter::Triple(absl::string_view key, const std::array<uint32_t, 3>& values) {
  Key(key);
  if (style_ == Style::kJson) {
    absl::StrAppend(out_, "[", values[0], ",", values[1], ",", values[2], "]");
  } else {
    absl::StrAppend(out_, values[0], "x", values[1], "x", values[2]);
  }
}

void LineWriter::Fields(const Message& message) {
  FieldsOf(message, absl::StrCat(absl::AsciiStrToLower(message.GetDescriptor()->name()),
                                 "_type"));
}

void LineWriter::FieldsOf(const Message& message, absl::string_view type_key) {
  const Reflection* reflection = message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    absl::string_view key = field->name() == "type" ? type_key : field->name();
    if (field->is_repeated()) {
      if (style_ == Style::kText && reflection->FieldSize(message, field) == 0)
        continue;
      Repeated(message, field, key);
      continue;
    }
    bool optional =
        style_ == Style::kText || field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (optional && !reflection->HasField(message, field)) continue;
    Field(message, field, key);
  }
}

void LineWriter::Nested(absl::string_view key, const Message& message) {
  // The stream's own types: of use to programs, not to readers of a dump.
  if (message.GetDescriptor()->file()->package() == "google.protobuf") return;
  if (style_ == Style::kText) {
    std::string before = prefix_;
    absl::StrAppend(&prefix_, key, ".");
    FieldsOf(message, "type");
    prefix_ = before;
    return;
  }
  if (!key.empty()) Key(key);
  out_->push_back('{');
  first_ = true;
  FieldsOf(message, "type");
  out_->push_back('}');
  first_ = false;
}

void LineWriter::Field(const Message& message, const FieldDescriptor* field,
                       absl::string_view key) {
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    Nested(key, message.GetReflection()->GetMessage(message, field));
    return;
  }
  Key(key);
  Element(message, field, -1);
}

void LineWriter::Repeated(const Message& message, const FieldDescriptor* field,
                          absl::string_view key) {
  const Reflection* reflection = message.GetReflection();
  int size = reflection->FieldSize(message, field);
  bool messages = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (style_ == Style::kText && messages) {
    for (int i = 0; i < size; ++i) {
      Nested(absl::StrCat(key, "[", i, "]"),
             reflection->GetRepeatedMessage(message, field, i));
    }
    return;
  }
  Key(key);
  out_->push_back('[');
  for (int i = 0; i < size; ++i) {
    if (i > 0) out_->push_back(',');
    if (messages) {
      Nested("", reflection->GetRepeatedMessage(message, field, i));
    } else {
      Element(message, field, i);
    }
  }
  out_->push_back(']');
}

// The value of a field that is no message; `index` -1: not repeated.
void LineWriter::Element(const Message& message, const FieldDescriptor* field,
                         int index) {
  const Reflection* r = message.GetReflection();
  bool single = index < 0;
  std::string scratch;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      absl::StrAppend(out_, single ? r->GetUInt32(message, field)
                                   : r->GetRepeatedUInt32(message, field, index));
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      absl::StrAppend(out_, single ? r->GetUInt64(message, field)
                                   : r->GetRepeatedUInt64(message, field, index));
      break;
    case FieldDescriptor::CPPTYPE_INT32:
      absl::StrAppend(out_, single ? r->GetInt32(message, field)
                                   : r->GetRepeatedInt32(message, field, index));
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      absl::StrAppend(out_, single ? r->GetInt64(message, field)
                                   : r->GetRepeatedInt64(message, field, index));
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      out_->append(ExactNumber(single ? r->GetDouble(message, field)
                                      : r->GetRepeatedDouble(message, field, index)));
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      absl::StrAppend(out_, single ? r->GetFloat(message, field)
                                   : r->GetRepeatedFloat(message, field, index));
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      absl::StrAppend(out_, (single ? r->GetBool(message, field)
                                    : r->GetRepeatedBool(message, field, index))
                                ? "true"
                                : "false");
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      Value(ShortEnumName(field->enum_type(),
                          single ? r->GetEnumValue(message, field)
                                 : r->GetRepeatedEnumValue(message, field, index)));
      break;
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string& text =
          single ? r->GetStringReference(message, field, &scratch)
                 : r->GetRepeatedStringReference(message, field, index, &scratch);
      Value(field->type() == FieldDescriptor::TYPE_BYTES ? absl::BytesToHexString(text)
                                                         : text);
      break;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;  // see Nested()
  }
}

}  // namespace rocattach
