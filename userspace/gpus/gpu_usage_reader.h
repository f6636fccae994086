// All processes that use GPUs, and their use of each.
#ifndef ROCATTACH_USERSPACE_GPUS_GPU_USAGE_READER_H_
#define ROCATTACH_USERSPACE_GPUS_GPU_USAGE_READER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "userspace/base/process.h"
#include "userspace/gpus/gpu_devices.h"
#include "userspace/gpus/gpu_roots.h"
#include "userspace/gpus/process_gpu_use.h"

namespace rocattach {

struct GpuProcess {
  ProcessId id;
  std::string comm;                           // set by the process: any bytes
  uid_t uid = 0;                              // effective
  std::map<std::string, ProcessGpuUse> gpus;  // by GpuDevice::key
};

// Failures so far: what could not be read, or was implausible.
struct GpuReadFailures {
  uint64_t topology = 0;   // rounds without a topology although there is a driver
  uint64_t kfd = 0;        // rounds without KFD's list of processes
  uint64_t drm = 0;        // processes whose descriptors could not be read, in rounds
  uint64_t malformed = 0;  // files without the number that belongs there
  uint64_t crowded = 0;    // rounds in which there was more than is read
  uint64_t unknown_process = 0;  // processes of KFD's that are not in /proc, in rounds
  // The last one, for users; OK if there was none.
  absl::Status last;

  uint64_t sum() const {
    return topology + kfd + drm + malformed + crowded + unknown_process;
  }
};

struct GpuUsage {
  std::vector<GpuDevice> devices;     // empty where there is no driver
  std::vector<GpuProcess> processes;  // by number
};

struct GpuReaderLimits {
  size_t processes = 4096;       // processes that use GPUs
  size_t all_processes = 65536;  // on the machine
  size_t descriptors = 1 << 20;  // in a round
};

// Reads files of the kernel only, nothing of the processes themselves. Not thread-safe:
// one read may wait as long as the driver does.
class GpuUsageReader {
 public:
  explicit GpuUsageReader(GpuRoots roots, GpuReaderLimits limits = {})
      : roots_(std::move(roots)), limits_(limits) {}

  // `everyone`: also looks for processes that have GPUs open without KFD, at the cost
  // of checking all processes of the machine. Those that were found are checked in
  // later rounds too.
  GpuUsage Read(bool everyone);
  const GpuReadFailures& failures() const { return failures_; }

 private:
  // Clients by GPU and id, so that each is counted once.
  using SeenClients = std::set<std::pair<std::string, uint64_t>>;

  void ReadDevices();
  // The IDs of all processes to check, in order.
  std::vector<pid_t> Candidates(bool everyone);
  std::optional<GpuProcess> ReadProcess(pid_t pid, SeenClients* seen, size_t* room);
  void AddClients(pid_t pid, GpuProcess* process, SeenClients* seen, size_t* room);
  std::string KeyOfId(uint32_t gpu_id) const;
  // The GPU of a client; empty if it is not known which one.
  std::string KeyOfFile(const std::string& pci,
                        std::optional<uint32_t> render_minor) const;
  void Fail(uint64_t* count, absl::Status why);

  const GpuRoots roots_;
  const GpuReaderLimits limits_;
  std::vector<GpuDevice> devices_;
  uint64_t generation_ = 0;    // the topology's, as in devices_
  std::set<pid_t> kfd_, drm_;  // from the last round
  GpuReadFailures failures_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_GPUS_GPU_USAGE_READER_H_
