// The use of GPUs by processes and workloads, added up over readings of the driver.
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
    // Maximum workloads without processes whose totals are kept.
    size_t most_ended = 1024;
    // Time after the end of a workload's last process during which its totals are kept,
    // so that they continue if it has another process.
    uint64_t keep_ns = 600'000'000'000;
    // Readings older than this are not exposed: the driver hangs.
    uint64_t most_age_ns = 30'000'000'000;
  };

  GpuUseTotals() : GpuUseTotals(Options()) {}
  explicit GpuUseTotals(const Options& options) : options_(options) {}

  // Takes a reading made at `now_ns`, and the workloads of its processes as far as they
  // are known.
  void Update(GpuUsage usage, const std::map<ProcessId, WorkloadIdentity>& workloads,
              uint64_t now_ns);

  // Adds devices, and the uses that have room below the snapshot's limit on series.
  void AddTo(NodeSnapshot* snapshot, uint64_t now_ns);

 private:
  // Pod UID, container id and job. Names are not used: they may become known later,
  // and totals of ended processes must stay with those of running ones.
  using Key = std::tuple<std::string, std::string, std::string>;
  struct Ended {
    std::map<std::string, uint64_t> sdma_us;  // of ended processes, by GPU
    uint64_t last_ns = 0;                     // when it last had a process
  };

  static Key KeyOf(const WorkloadIdentity& workload);
  static bool IsKnown(const WorkloadIdentity& workload);
  // Keeps the totals of processes that have ended since the last reading.
  void KeepEnded(const std::map<ProcessId, WorkloadIdentity>& workloads);
  void ForgetEnded(uint64_t now_ns);
  void AddDevices(NodeSnapshot* snapshot) const;
  std::vector<WorkloadUseSnapshot> SumWorkloads() const;
  // True if there is room for these series, which are then counted.
  bool HasRoom(uint64_t series, NodeSnapshot* snapshot) const;

  const Options options_;
  std::vector<GpuDevice> devices_;
  std::vector<ProcessUseSnapshot> processes_;
  std::map<Key, Ended> ended_;
  std::set<ProcessId> refused_;  // without room
  uint64_t series_refused_ = 0;  // the series of these
  uint64_t read_ns_ = 0;         // 0: never
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_GPU_USE_TOTALS_H_
