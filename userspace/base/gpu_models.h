// Names of GPU models.
#ifndef ROCATTACH_USERSPACE_BASE_GPU_MODELS_H_
#define ROCATTACH_USERSPACE_BASE_GPU_MODELS_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace rocattach {

// The model of a PCI device as ROCm's compute profiler names it, such as MI300X_A1.
// Empty if it has no name for it, or if the ID is 0 (not known).
absl::string_view GpuModelName(uint32_t device_id);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_GPU_MODELS_H_
