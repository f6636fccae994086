// Names of GPU models.
#ifndef ROCATTACH_USERSPACE_BASE_GPU_MODELS_H_
#define ROCATTACH_USERSPACE_BASE_GPU_MODELS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace rocattach {

// The model of a PCI device as ROCm's compute profiler names it, such as MI300X_A1.
// Empty if it has no name for it, or if the ID is 0 (not known).
absl::string_view GpuModelName(uint32_t device_id);

// "gfx90a" for 90010, the driver's gfx_target_version: the major version, followed by
// two decimal digits each for the minor version and the stepping (amdkfd,
// kfd_device.c). In the name, each of these two is a single hexadecimal digit.
std::string ArchitectureName(uint32_t target_version);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_GPU_MODELS_H_
