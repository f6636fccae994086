#include "userspace/base/json.h"

#include <cmath>

namespace rocattach {

std::string DumpJson(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

Json NumberJson(std::optional<double> value) {
  if (!value.has_value() || !std::isfinite(*value)) return nullptr;
  if (std::abs(*value) < 9e15 && *value == std::trunc(*value)) {
    return static_cast<int64_t>(*value);
  }
  return *value;
}

std::optional<Json> ParseJsonObject(absl::string_view text) {
  Json json = Json::parse(text.begin(), text.end(), /*cb=*/nullptr,
                          /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

std::string JsonString(const Json& object, const char* key) {
  const auto member = object.find(key);
  return member != object.end() && member->is_string() ? member->get<std::string>()
                                                       : "";
}

uint64_t JsonUnsigned(const Json& object, const char* key) {
  const auto member = object.find(key);
  return member != object.end() && member->is_number_unsigned()
             ? member->get<uint64_t>()
             : 0;
}

}  // namespace rocattach
