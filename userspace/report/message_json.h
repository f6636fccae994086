// Protobuf messages and numbers as JSON, in the form that all commands print.
#ifndef ROCATTACH_USERSPACE_REPORT_MESSAGE_JSON_H_
#define ROCATTACH_USERSPACE_REPORT_MESSAGE_JSON_H_

#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace rocattach {

using Json = nlohmann::ordered_json;  // keys stay in the order in which they are added

enum class UnsetFields { kIncluded, kOmitted };

// Every field of a message by its name: enums by their short names, bytes in
// hexadecimal, nested messages as objects, absent messages and the descriptors of a
// StreamHeader not at all. A field "type" gets the key `type_key`.
Json MessageJson(const google::protobuf::Message& message,
                 UnsetFields unset = UnsetFields::kIncluded,
                 absl::string_view type_key = "type");

// Whole numbers without a decimal point, others with as many digits as are needed to
// read the same number back; null for infinities, NaN and nullopt.
Json NumberJson(std::optional<double> value);

// On one line. Bytes that are not UTF-8 become U+FFFD.
std::string DumpJson(const Json& json);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_MESSAGE_JSON_H_
