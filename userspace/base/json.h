// JSON values, in the form in which all programs read and print them.
#ifndef ROCATTACH_USERSPACE_BASE_JSON_H_
#define ROCATTACH_USERSPACE_BASE_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace rocattach {

using Json = nlohmann::ordered_json;  // keys stay in the order in which they are added

// On one line, or with `indent` spaces for each level. Bytes that are not UTF-8 become
// U+FFFD.
std::string DumpJson(const Json& json, int indent = -1);

// Whole numbers without a decimal point, others with as many digits as are needed to
// read the same number back; null for infinities, NaN and nullopt.
Json NumberJson(std::optional<double> value);

// The object that the text is; nullopt if it is anything else.
std::optional<Json> ParseJsonObject(absl::string_view text);

// A member of an object: "" or 0 if it is absent or has another type.
std::string JsonString(const Json& object, const char* key);
uint64_t JsonUnsigned(const Json& object, const char* key);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_JSON_H_
