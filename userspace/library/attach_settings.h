// Settings of an attach from the environment, as options of `rocattach attach`.
#ifndef ROCATTACH_USERSPACE_LIBRARY_ATTACH_SETTINGS_H_
#define ROCATTACH_USERSPACE_LIBRARY_ATTACH_SETTINGS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rocattach {

struct AttachSettings {
  std::vector<std::string> options;
  // ROCPROF_ATTACH_TOOL_LIBRARY without empty parts and without our own libraries.
  std::vector<std::string> tool_libraries;
  // A recording ends by itself after this, whatever its processes answer; 0: never.
  uint32_t duration_msec = 0;
  // Variables that are set and have no effect.
  std::vector<std::string> ignored;
};

// Nullopt if the variable is not set.
using EnvironmentReader = std::function<std::optional<std::string>(const char* name)>;

// Reads the calling process's variable; nullopt for any in a set-user-ID program.
std::optional<std::string> ReadEnvironment(const char* name);

// As ROCm reads a flag: false for 0, n, no, f, false and off in any case, and for an
// empty text.
bool IsSet(absl::string_view text);

AttachSettings ReadAttachSettings(const EnvironmentReader& environment);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_ATTACH_SETTINGS_H_
