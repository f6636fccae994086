// The meters of all processes, and the totals of the machine.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_NODE_METERS_H_
#define ROCATTACH_USERSPACE_TELEMETRY_NODE_METERS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "userspace/base/clock.h"
#include "userspace/base/process.h"
#include "userspace/record/target_meter.h"
#include "userspace/telemetry/process_meter.h"
#include "userspace/telemetry/series_budget.h"
#include "userspace/telemetry/snapshot.h"

namespace rocattach {

struct NodeMetersOptions {
  uint64_t most_series = 20'000;  // of processes and their kernels
  size_t named_kernels = 10;      // of each process
  // A process that has ended is exposed once more, and at least for this long.
  uint64_t grace_ns = 2'000'000'000;
  // A set of MetricsConsumer: those that must see a process before it is forgotten.
  uint8_t consumers = static_cast<uint8_t>(MetricsConsumer::kScrape);
  // Maximum processes that have ended; beyond this, the oldest is forgotten.
  size_t most_ended = 256;
  std::function<ClockSnapshot()> clock = CaptureClockSnapshot;
};

// Counters and totals never decrease, and include ended processes. Used on the
// recorder's thread.
class NodeMeters : public TargetMeters {
 public:
  explicit NodeMeters(NodeMetersOptions options);

  std::shared_ptr<TargetMeter> Open(const v1::Process& process,
                                    std::shared_ptr<const TargetNames> names) override;
  void OnVerdict(const v1::WindowEvent& verdict) override;

  // Maximum known workloads of processes that are not attached yet.
  static constexpr size_t kMostEarlyWorkloads = 1024;

  // Sets a process's workload as soon as it is known, which may be before its attach.
  void SetWorkload(const ProcessId& process, const WorkloadIdentity& workload);

  // Adds the number of a session that the service's own options define.
  void AddOwnSession(uint64_t number) { own_sessions_.insert(number); }

  // A process that has ended may be forgotten when all consumers have seen it. The
  // caller adds the recorder's own totals.
  NodeSnapshot CaptureSnapshot(MetricsConsumer consumer);

 private:
  // The start of the process as wall time, by the current clock; 0 if it is not known.
  uint64_t StartWallNs(const v1::Process& process) const;
  void UpdateRingFill(ProcessMeter* meter);
  // The process's part of the machine's totals stays.
  void Forget(ProcessMeter* meter);
  // Forgets the oldest ended processes, beyond the limit.
  void LimitEnded();

  const NodeMetersOptions options_;
  SeriesBudget budget_;
  std::vector<std::shared_ptr<ProcessMeter>> meters_;  // in order of arrival
  std::deque<std::pair<ProcessId, WorkloadIdentity>> early_workloads_;  // oldest first
  std::map<std::string, GpuSnapshot> gpus_;
  std::map<std::pair<std::string, std::string>, uint64_t> windows_;
  LossTotals ended_losses_;
  uint64_t ended_overhead_ns_ = 0;
  std::set<uint64_t> own_sessions_;
  // The fullest ring since each consumer's last snapshot.
  std::map<MetricsConsumer, double> ring_fill_ = {{MetricsConsumer::kScrape, 0},
                                                  {MetricsConsumer::kPush, 0}};
  uint64_t unexposed_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_NODE_METERS_H_
