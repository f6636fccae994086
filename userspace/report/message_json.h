// Protobuf messages as JSON, in the form that all commands print.
#ifndef ROCATTACH_USERSPACE_REPORT_MESSAGE_JSON_H_
#define ROCATTACH_USERSPACE_REPORT_MESSAGE_JSON_H_

#include <google/protobuf/message.h>

#include "absl/strings/string_view.h"
#include "userspace/base/json.h"

namespace rocattach {

enum class UnsetFields { kIncluded, kOmitted };

// Every field of a message by its name: enums by their short names, bytes in
// hexadecimal, nested messages as objects, absent messages and the descriptors of a
// StreamHeader not at all. A field "type" gets the key `type_key`.
Json MessageJson(const google::protobuf::Message& message,
                 UnsetFields unset = UnsetFields::kIncluded,
                 absl::string_view type_key = "type");

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_MESSAGE_JSON_H_
