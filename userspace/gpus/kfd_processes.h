// Information from KFD about processes that compute.
#ifndef ROCATTACH_USERSPACE_GPUS_KFD_PROCESSES_H_
#define ROCATTACH_USERSPACE_GPUS_KFD_PROCESSES_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "userspace/gpus/gpu_roots.h"
#include "userspace/gpus/process_gpu_use.h"

namespace rocattach {

struct KfdProcesses {
  std::vector<pid_t> pids;  // in the initial PID namespace, in order
  bool cut = false;         // there are more
};

// The processes that have opened /dev/kfd. NOT_FOUND where there is no driver.
absl::StatusOr<KfdProcesses> ListKfdProcesses(const GpuRoots& roots, size_t most);

// The GPU use of one of them, by gpu_id: from the files vram_ID, sdma_ID,
// stats_ID/cu_occupancy and stats_ID/evicted_ms of its directory. Empty once it has
// ended. *malformed counts files that contain no number.
std::map<uint32_t, ProcessGpuUse> ReadKfdProcess(const GpuRoots& roots, pid_t pid,
                                                 uint64_t* malformed);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_GPUS_KFD_PROCESSES_H_
