// The directories that contain the kernel driver's files.
#ifndef ROCATTACH_USERSPACE_GPUS_GPU_ROOTS_H_
#define ROCATTACH_USERSPACE_GPUS_GPU_ROOTS_H_

#include <string>

namespace rocattach {

// Directories; tests have their own.
struct GpuRoots {
  std::string kfd = "/sys/class/kfd/kfd";  // contains topology and proc
  std::string drm = "/sys/class/drm";
  std::string proc = "/proc";
  std::string module = "/sys/module/amdgpu";  // the driver's own
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_GPUS_GPU_ROOTS_H_
