#include "userspace/export/common/agent_properties.h"

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace rocattach {

uint64_t DriverProperty(const v1::Agent& agent, absl::string_view name,
                        uint64_t otherwise) {
  for (const v1::AgentProperty& property : agent.properties()) {
    if (property.name() == name) return property.value();
  }
  return otherwise;
}

uint32_t GfxTargetVersion(absl::string_view name) {
  // Two decimal digits of the major version, then hexadecimal minor and stepping.
  uint32_t major = 0, minor = 0, stepping = 0;
  if (!absl::ConsumePrefix(&name, "gfx") || name.size() < 3) return 0;
  if (!absl::SimpleAtoi(name.substr(0, name.size() - 2), &major) ||
      !absl::SimpleHexAtoi(name.substr(name.size() - 2, 1), &minor) ||
      !absl::SimpleHexAtoi(name.substr(name.size() - 1), &stepping)) {
    return 0;
  }
  return major * 10000 + minor * 100 + stepping;
}

}  // namespace rocattach
