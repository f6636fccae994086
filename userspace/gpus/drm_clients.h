// Information from DRM about open files of GPUs.
#ifndef ROCATTACH_USERSPACE_GPUS_DRM_CLIENTS_H_
#define ROCATTACH_USERSPACE_GPUS_DRM_CLIENTS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "userspace/gpus/gpu_roots.h"

namespace rocattach {

// One open file of a GPU (struct drm_file), which several descriptors, and several
// processes, may share.
struct DrmClient {
  uint64_t id = 0;                       // drm-client-id
  std::string pci;                       // drm-pdev
  std::optional<uint32_t> render_minor;  // from the file's name, /dev/dri/renderDN
  std::optional<uint64_t> vram_bytes;
  std::map<std::string, uint64_t> engine_ns;  // drm-engine-NAME
};

inline constexpr size_t kMostEngines = 32;
inline constexpr size_t kMostFdInfoBytes = 16 << 10;

// Parses the text of /proc/PID/fdinfo/N; unset if it is not a file of amdgpu. The
// memory is drm-memory-vram, or drm-resident-vram where there is no such line. See the
// kernel's Documentation/gpu/drm-usage-stats.rst.
std::optional<DrmClient> ParseFdInfo(absl::string_view text);

struct DrmScan {
  std::vector<DrmClient> clients;
  bool unreadable = false;  // its descriptors may not be read
  bool cut = false;         // it has more descriptors than were read
};

// The clients of one process. *room is the number of descriptors that may be read, and
// is reduced by those that are.
DrmScan ReadDrmClients(const GpuRoots& roots, pid_t pid, size_t* room);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_GPUS_DRM_CLIENTS_H_
