#include "userspace/report/message_json.h"

#include <google/protobuf/descriptor.h>

#include <cstdint>

#include "absl/strings/escaping.h"
#include "userspace/report/text.h"

namespace rocattach {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// One value of a field that is not a message; `index` -1: not repeated.
Json ScalarJson(const Message& message, const FieldDescriptor* field, int index) {
  const Reflection* r = message.GetReflection();
  const bool single = index < 0;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return single ? r->GetUInt32(message, field)
                    : r->GetRepeatedUInt32(message, field, index);
    case FieldDescriptor::CPPTYPE_UINT64:
      return single ? r->GetUInt64(message, field)
                    : r->GetRepeatedUInt64(message, field, index);
    case FieldDescriptor::CPPTYPE_INT32:
      return single ? r->GetInt32(message, field)
                    : r->GetRepeatedInt32(message, field, index);
    case FieldDescriptor::CPPTYPE_INT64:
      return single ? r->GetInt64(message, field)
                    : r->GetRepeatedInt64(message, field, index);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return NumberJson(single ? r->GetDouble(message, field)
                               : r->GetRepeatedDouble(message, field, index));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return NumberJson(single ? r->GetFloat(message, field)
                               : r->GetRepeatedFloat(message, field, index));
    case FieldDescriptor::CPPTYPE_BOOL:
      return single ? r->GetBool(message, field)
                    : r->GetRepeatedBool(message, field, index);
    case FieldDescriptor::CPPTYPE_ENUM:
      return ShortEnumName(field->enum_type(),
                           single ? r->GetEnumValue(message, field)
                                  : r->GetRepeatedEnumValue(message, field, index));
    case FieldDescriptor::CPPTYPE_STRING: {
      std::string text = single ? r->GetString(message, field)
                                : r->GetRepeatedString(message, field, index);
      return field->type() == FieldDescriptor::TYPE_BYTES ? absl::BytesToHexString(text)
                                                          : text;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;  // not a scalar
  }
  return nullptr;
}

Json RepeatedJson(const Message& message, const FieldDescriptor* field,
                  UnsetFields unset) {
  const Reflection* reflection = message.GetReflection();
  Json values = Json::array();
  for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
    values.push_back(
        field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE
            ? MessageJson(reflection->GetRepeatedMessage(message, field, i), unset)
            : ScalarJson(message, field, i));
  }
  return values;
}

// True for the stream's own type descriptors, which only programs need.
bool IsDescriptor(const FieldDescriptor* field) {
  return field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
         field->message_type()->file()->package() == "google.protobuf";
}

}  // namespace

Json MessageJson(const Message& message, UnsetFields unset,
                 absl::string_view type_key) {
  const Reflection* reflection = message.GetReflection();
  Json object = Json::object();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    if (IsDescriptor(field)) continue;
    std::string key(field->name() == "type" ? type_key : field->name());
    if (field->is_repeated()) {
      if (unset == UnsetFields::kOmitted && reflection->FieldSize(message, field) == 0)
        continue;
      object.emplace(std::move(key), RepeatedJson(message, field, unset));
      continue;
    }
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if ((is_message || unset == UnsetFields::kOmitted) &&
        !reflection->HasField(message, field)) {
      continue;
    }
    object.emplace(std::move(key),
                   is_message
                       ? MessageJson(reflection->GetMessage(message, field), unset)
                       : ScalarJson(message, field, -1));
  }
  return object;
}

}  // namespace rocattach
