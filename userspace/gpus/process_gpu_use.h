// The use of GPUs by one process, as the kernel driver reports it.
#ifndef ROCATTACH_USERSPACE_GPUS_PROCESS_GPU_USE_H_
#define ROCATTACH_USERSPACE_GPUS_PROCESS_GPU_USE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace rocattach {

// The use of one GPU. A value that the driver does not report is unset, never 0.
struct ProcessGpuUse {
  std::optional<uint64_t> kfd_vram_bytes;  // memory that compute runtimes allocated
  // Memory of the process's DRM clients. Newer drivers count that of compute here too,
  // so the two must not be added.
  std::optional<uint64_t> drm_vram_bytes;
  std::optional<uint64_t> sdma_us;       // time of the copy engines, so far
  std::optional<uint64_t> cu_occupancy;  // compute units that run waves of it now
  // Time for which its queues have been off the GPU for lack of memory, so far.
  std::optional<uint64_t> evicted_ms;
  // Engine time of work submitted through DRM, so far, by the engine's name there:
  // "gfx", "compute", "dma", "enc". Queues of compute runtimes are not included.
  std::map<std::string, uint64_t> engine_ns;

  // The larger of the values from KFD and DRM: each may count memory that the other
  // does not.
  std::optional<uint64_t> vram_bytes() const {
    if (!kfd_vram_bytes.has_value()) return drm_vram_bytes;
    return std::max(*kfd_vram_bytes, drm_vram_bytes.value_or(0));
  }
  bool operator==(const ProcessGpuUse&) const = default;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_GPUS_PROCESS_GPU_USE_H_
