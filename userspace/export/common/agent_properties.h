// Properties of agents that outputs derive or look up.
#ifndef ROCATTACH_USERSPACE_EXPORT_COMMON_AGENT_PROPERTIES_H_
#define ROCATTACH_USERSPACE_EXPORT_COMMON_AGENT_PROPERTIES_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "userspace/stream/decoder.h"

namespace rocattach {

// The value that the kernel driver reports for the agent's node under this name;
// `otherwise` if the recording does not have it.
uint64_t DriverProperty(const v1::Agent& agent, absl::string_view name,
                        uint64_t otherwise);

// The number of an architecture in rocprofv3: 90010 for "gfx90a"; 0 for other names.
uint32_t GfxTargetVersion(absl::string_view name);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_COMMON_AGENT_PROPERTIES_H_
