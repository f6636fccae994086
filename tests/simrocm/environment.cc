#include "tests/simrocm/environment.h"

#include <strings.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace simrocm {

std::string GetString(const char* name) {
  const char* value = getenv(name);
  return value != nullptr ? value : "";
}

bool GetBool(const char* name, bool fallback) {
  std::string value = GetString(name);
  if (value.empty()) return fallback;
  for (const char* no : {"0", "n", "no", "f", "false", "off"}) {
    if (strcasecmp(value.c_str(), no) == 0) return false;
  }
  return true;
}

Variables ParseEnvironmentBuffer(const char* buffer) {
  Variables variables;
  if (buffer == nullptr) return variables;
  uint32_t count = 0;
  memcpy(&count, buffer, sizeof(count));
  if (count > 65536) return variables;
  const char* position = buffer + sizeof(count);
  for (uint32_t i = 0; i < count; ++i) {
    std::string name = position;
    position += name.size() + 1;
    std::string value = position;
    position += value.size() + 1;
    variables.emplace_back(std::move(name), std::move(value));
  }
  return variables;
}

EnvironmentChange::EnvironmentChange(const Variables& variables) {
  for (const auto& [name, value] : variables) {
    if (name == "ROCPROFILER_REGISTER_TOOL_ATTACHED") continue;
    const char* before = getenv(name.c_str());
    old_.emplace_back(
        name, before != nullptr ? std::optional<std::string>(before) : std::nullopt);
    setenv(name.c_str(), value.c_str(), 1);
  }
}

void EnvironmentChange::Restore() {
  // In reverse order, so that a name that was given twice gets its first value back.
  for (auto entry = old_.rbegin(); entry != old_.rend(); ++entry) {
    if (entry->second.has_value()) {
      setenv(entry->first.c_str(), entry->second->c_str(), 1);
    } else {
      unsetenv(entry->first.c_str());
    }
  }
  old_.clear();
}

}  // namespace simrocm
