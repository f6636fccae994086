// The part of libdrm's interface that the simulator fills in.
#ifndef ROCATTACH_TESTS_SIMGPU_DRM_H_
#define ROCATTACH_TESTS_SIMGPU_DRM_H_

#include <stdint.h>

// libdrm's amdgpu_gpu_info as far as it is filled in; the rest is 0.
struct simgpu_drm_gpu_info {
  uint32_t device_id;
  uint32_t unused[2];
  uint32_t family_id;
  uint32_t unused_too[14];
  uint32_t counter_khz;  // rate of the GPU's clock
  uint32_t rest[85];
};

#endif  // ROCATTACH_TESTS_SIMGPU_DRM_H_
