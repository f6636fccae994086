// What one process has done so far.
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

// Bounded in memory, whatever the process does. On the recorder's thread.
class ProcessMeter : public TargetMeter {
 public:
  static constexpr uint32_t kMostAgents = 256;
  static constexpr size_t kMostCounters = 64;  // of a GPU

  // `start_wall_ns`: when it started as wall time.
  ProcessMeter(const v1::Process& process, uint64_t start_wall_ns,
               std::shared_ptr<const TargetNames> names, size_t named_kernels);

  void AddDispatches(absl::Span<const rocattach_dispatch> records) override;
  void AddSampled(absl::Span<const rocattach_dispatch> records,
                  absl::Span<const uint32_t> weights) override;
  void AddCopies(absl::Span<const rocattach_copy> records) override;
  void AddCounters(uint32_t agent_id, const std::vector<std::string>& names,
                   absl::Span<const CounterReading> readings) override;
  void AddSample(uint32_t agent_id, const std::vector<std::string>& names,
                 absl::Span<const CounterReading> readings, uint64_t span_ns) override;
  void Update(const TargetStanding& standing) override;
  void End() override;

  // Adds to the machine's totals what has happened since the last call, and who owns
  // counters; `own_sessions`: the numbers of the service's own sessions.
  void AddGrowthTo(const std::set<uint64_t>& own_sessions,
                   std::map<std::string, GpuSnapshot>* gpus);
  // Everything that has room in the budget; false if nothing has.
  bool Take(SeriesBudget* budget, ProcessSnapshot* snapshot);
  void Release(SeriesBudget* budget);
  // Another process has its number now: only the machine's totals contain it from here
  // on.
  void Hide(SeriesBudget* budget);

  uint32_t pid() const { return pid_; }
  uint64_t start_ns() const { return start_ns_; }
  uint64_t start_ticks() const { return start_ticks_; }
  // Of one that had ended, the executable is known from its window alone.
  void set_workload(WorkloadIdentity workload) {
    if (workload.executable.empty()) workload.executable = workload_.executable;
    workload_ = std::move(workload);
  }
  const LossTotals& losses() const { return losses_; }
  uint64_t own_ns() const { return standing_.own_ns; }
  // The fullest ring since the last call: 0 to 1.
  double TakeRingFill() { return std::exchange(ring_fill_, 0); }
  const TargetStanding& standing() const { return standing_; }
  uint64_t ended_ns() const { return ended_ns_; }  // 0: it runs
  // A snapshot for this consumer contained all that it has done so far.
  void NoteSeen(MetricsConsumer consumer) {
    if (ended_ns_ != 0) seen_by_ |= static_cast<uint8_t>(consumer);
  }
  // All of these have seen all that it has done.
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
    // Of the whole GPU, since AddGrowthTo() has taken it.
    std::map<std::string, GpuCounterTotals, std::less<>> sampled;
  };

  Gpu* GpuOf(uint32_t agent_id) {
    return agent_id < gpus_.size() ? &gpus_[agent_id] : NewGpu(agent_id);
  }
  // A record that stands for so many dispatches.
  void AddDispatch(const rocattach_dispatch& record, uint64_t weight);
  Gpu* NewGpu(uint32_t agent_id);
  // See TargetGpu::key.
  std::string KeyOf(uint32_t agent_id) const;
  void TakeCounters(Gpu* gpu, const std::string& key, SeriesBudget* budget,
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
