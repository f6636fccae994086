// The totals of one process so far.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_PROCESS_METER_H_
#define ROCATTACH_USERSPACE_TELEMETRY_PROCESS_METER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "userspace/record/target_meter.h"
#include "userspace/telemetry/kernel_totals.h"
#include "userspace/telemetry/series_budget.h"
#include "userspace/telemetry/snapshot.h"

namespace rocattach {

// Uses bounded memory, whatever the process does. Used on the recorder's thread.
class ProcessMeter : public TargetMeter {
 public:
  static constexpr uint32_t kMostAgents = 256;
  static constexpr size_t kMostCounters = 64;  // per GPU

  // `start_wall_ns`: the start of the process as wall time.
  ProcessMeter(const v1::Process& process, uint64_t start_wall_ns,
               std::shared_ptr<const TargetNames> names, size_t named_kernels);

  void AddDispatches(absl::Span<const rocattach_dispatch> records) override;
  void AddSampled(absl::Span<const rocattach_dispatch> records,
                  absl::Span<const uint32_t> weights) override;
  void AddCopies(absl::Span<const rocattach_copy> records) override;
  void AddCounters(uint32_t agent_id, const std::vector<std::string>& names,
                   absl::Span<const rocattach_counter_value> readings) override;
  void AddSample(uint32_t agent_id, const std::vector<std::string>& names,
                 absl::Span<const rocattach_counter_value> readings,
                 uint64_t span_ns) override;
  void Update(const TargetStanding& standing) override;
  void End() override;

  // Adds the growth since the last call to the machine's totals, and sets the owners of
  // counters; `own_sessions`: the numbers of the service's own sessions.
  void AddGrowthTo(const std::set<uint64_t>& own_sessions,
                   std::map<std::string, GpuSnapshot>* gpus);
  // Fills in everything that has room in the budget; false if nothing has.
  bool FillSnapshot(SeriesBudget* budget, ProcessSnapshot* snapshot);
  void Release(SeriesBudget* budget);
  // For when another process has got its process ID: from here on only the machine's
  // totals contain it.
  void Hide(SeriesBudget* budget);

  uint32_t pid() const { return pid_; }
  uint64_t start_ns() const { return start_ns_; }
  uint64_t start_ticks() const { return start_ticks_; }
  // The executable of a process that had ended is known from its window alone.
  void set_workload(WorkloadIdentity workload) {
    if (workload.executable.empty()) workload.executable = workload_.executable;
    workload_ = std::move(workload);
  }
  const LossTotals& losses() const { return losses_; }
  uint64_t own_ns() const { return standing_.own_ns; }
  // The highest fill of a ring since the last call: 0 to 1.
  double TakeRingFill() { return std::exchange(ring_fill_, 0); }
  const TargetStanding& standing() const { return standing_; }
  uint64_t ended_ns() const { return ended_ns_; }  // 0: it runs
  // Called when a snapshot for this consumer contained the totals so far.
  void MarkSeen(MetricsConsumer consumer) {
    if (ended_ns_ != 0) seen_by_ |= static_cast<uint8_t>(consumer);
  }
  // True if all of these consumers have seen the final totals.
  bool SeenBy(uint8_t consumers) const {
    return ended_ns_ != 0 && (seen_by_ & consumers) == consumers;
  }

 private:
  struct Counter {
    MeasuredCounter totals;
    Admission admission;
  };
  struct Gpu {
    GpuTotals now, taken;
    Admission admission;
    std::map<std::string, Counter, std::less<>> counters;
    // Counters of the whole GPU, since the last AddGrowthTo().
    std::map<std::string, GpuCounterTotals, std::less<>> sampled;
  };

  Gpu* GpuOf(uint32_t agent_id) {
    return agent_id < gpus_.size() ? &gpus_[agent_id] : NewGpu(agent_id);
  }
  // Adds a record that represents `weight` dispatches.
  void AddDispatch(const rocattach_dispatch& record, uint64_t weight);
  Gpu* NewGpu(uint32_t agent_id);
  // See TargetGpu::key.
  std::string KeyOf(uint32_t agent_id) const;
  void FillCounters(Gpu* gpu, const std::string& key, SeriesBudget* budget,
                    ProcessSnapshot* snapshot);

  const uint32_t pid_, uid_;
  const uint64_t start_ns_, start_ticks_, start_wall_ns_;
  const std::string rocm_;
  const std::string comm_;
  WorkloadIdentity workload_;
  TargetStanding standing_;
  LossTotals losses_;
  double ring_fill_ = 0;
  std::vector<Gpu> gpus_;  // by agent
  CopyTotalsByDirection copies_ = {};
  std::array<Admission, std::tuple_size_v<CopyTotalsByDirection>> copy_admissions_;
  const bool names_kernels_;
  KernelTotals kernels_;
  Admission admission_, other_admission_, sampled_out_admission_;
  uint64_t ended_ns_ = 0;
  uint8_t seen_by_ = 0;  // a set of MetricsConsumer, since it ended
  bool hidden_ = false;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_PROCESS_METER_H_
