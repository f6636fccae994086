// What processes and workloads use of GPUs, added up over readings of the driver.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_GPU_USE_TOTALS_H_
#define ROCATTACH_USERSPACE_TELEMETRY_GPU_USE_TOTALS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "userspace/attribution/workload.h"
#include "userspace/base/process.h"
#include "userspace/gpus/gpu_usage_reader.h"
#include "userspace/telemetry/snapshot.h"

namespace rocattach {

// Not thread-safe.
class GpuUseTotals {
 public:
  struct Options {
    // Workloads without processes whose totals are kept.
    size_t most_ended = 1024;
    // For so long after the end of a workload's last process, its totals go on if it
    // has another one.
    uint64_t keep_ns = 600'000'000'000;
    // Older readings are not exposed: the driver hangs.
    uint64_t most_age_ns = 30'000'000'000;
  };

  GpuUseTotals() : GpuUseTotals(Options()) {}
  explicit GpuUseTotals(const Options& options) : options_(options) {}

  // A reading from `now_ns`, and the workloads of its processes as far as they are
  // known.
  void Update(GpuUsage usage, const std::map<ProcessId, WorkloadIdentity>& workloads,
              uint64_t now_ns);

  // Adds devices, and what has room below the snapshot's limit of series.
  void AddTo(NodeSnapshot* snapshot, uint64_t now_ns);

 private:
  // Uid of the pod, id of the container, and job. No names: these may be found out
  // later, and what has ended has to stay with what goes on.
  using Key = std::tuple<std::string, std::string, std::string>;
  struct Ended {
    std::map<std::string, uint64_t> sdma_us;  // of its ended processes, by GPU
    uint64_t last_ns = 0;                     // when it had a process last
  };

  static Key KeyOf(const WorkloadIdentity& workload);
  static bool IsKnown(const WorkloadIdentity& workload);
  // Keeps what processes have done that were there and are not any more.
  void KeepEnded(const std::map<ProcessId, WorkloadIdentity>& workloads);
  void ForgetEnded(uint64_t now_ns);
  void AddDevices(NodeSnapshot* snapshot) const;
  std::vector<WorkloadUseSnapshot> SumWorkloads() const;
  // Whether there is room for these series, which are counted then.
  bool HasRoom(uint64_t series, NodeSnapshot* snapshot) const;

  const Options options_;
  std::vector<GpuDevice> devices_;
  std::vector<ProcessUseSnapshot> processes_;
  std::map<Key, Ended> ended_;
  std::set<ProcessId> refused_;  // found no room
  uint64_t series_refused_ = 0;  // theirs
  uint64_t read_ns_ = 0;         // 0: never
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_GPU_USE_TOTALS_H_
