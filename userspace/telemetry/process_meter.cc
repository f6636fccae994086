#include "userspace/telemetry/process_meter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/record/drain/dictionary.h"
#include "userspace/telemetry/rocm_version.h"

namespace rocattach {

void LossTotals::Add(const v1::LossAccount& account) {
  ring_full += account.dropped_ring_full();
  collector += account.dropped_collector();
  invalid += account.dropped_invalid();
  inflight += account.dropped_inflight();
  writer += account.dropped_writer();
  sampled_out += account.sampled_out();
}

ProcessMeter::ProcessMeter(const v1::Process& process, uint64_t start_wall_ns,
                           std::shared_ptr<const TargetNames> names,
                           size_t named_kernels)
    : pid_(process.pid()),
      uid_(process.uid()),
      start_ns_(process.start_ns()),
      start_ticks_(process.start_ticks()),
      start_wall_ns_(start_wall_ns),
      rocm_(RocmVersionOf(process.hsa_library())),
      comm_(CleanText(process.comm())),
      names_kernels_(named_kernels > 0),
      kernels_(named_kernels, [names = std::move(names)](uint32_t kernel) {
        return names->Kernel(kernel).value_or("");
      }) {
  workload_.executable = CleanText(process.executable());
  workload_.cgroup_id = process.cgroup_id();
}

ProcessMeter::Gpu* ProcessMeter::NewGpu(uint32_t agent_id) {
  if (agent_id >= kMostAgents) agent_id = 0;
  if (agent_id >= gpus_.size()) gpus_.resize(agent_id + 1);
  return &gpus_[agent_id];
}

void ProcessMeter::AddDispatches(absl::Span<const rocattach_dispatch> records) {
  for (const rocattach_dispatch& record : records) AddDispatch(record, 1);
}

void ProcessMeter::AddSampled(absl::Span<const rocattach_dispatch> records,
                              absl::Span<const uint32_t> weights) {
  for (size_t i = 0; i < records.size(); ++i) AddDispatch(records[i], weights[i]);
}

void ProcessMeter::AddDispatch(const rocattach_dispatch& record, uint64_t weight) {
  GpuTotals& gpu = GpuOf(record.agent_id)->now;
  const bool untimed = (record.flags & ROCATTACH_DISPATCH_UNTIMED) != 0;
  const uint64_t ns = untimed ? 0 : record.end_ns - record.start_ns;
  gpu.operations.dispatches += weight;
  gpu.operations.time_ns += ns * weight;
  if (untimed) {
    gpu.untimed += weight;
  } else {
    gpu.durations.Add(ns, weight);
  }
  if (names_kernels_) kernels_.Add(record.kernel_id, ns, weight);
}

void ProcessMeter::AddCopies(absl::Span<const rocattach_copy> records) {
  for (const rocattach_copy& record : records) {
    CopyTotals& totals =
        copies_[std::min<size_t>(record.direction, copies_.size() - 1)];
    ++totals.copies;
    totals.bytes += record.bytes;
    totals.time_ns += record.end_ns - record.start_ns;  // 0 where not known
  }
}

void ProcessMeter::AddCounters(uint32_t agent_id, const std::vector<std::string>& names,
                               absl::Span<const rocattach_counter_value> readings) {
  auto& counters = GpuOf(agent_id)->counters;
  for (const rocattach_counter_value& reading : readings) {
    const std::string& name = names[reading.counter];
    auto found = counters.find(name);
    if (found == counters.end()) {
      if (counters.size() >= kMostCounters) continue;
      found = counters.emplace(name, Counter()).first;
    }
    found->second.totals.sum += reading.sum;
    ++found->second.totals.dispatches;
  }
}

void ProcessMeter::AddSample(uint32_t agent_id, const std::vector<std::string>& names,
                             absl::Span<const rocattach_counter_value> readings,
                             uint64_t span_ns) {
  auto& sampled = GpuOf(agent_id)->sampled;
  for (const rocattach_counter_value& reading : readings) {
    const std::string& name = names[reading.counter];
    auto found = sampled.find(name);
    if (found == sampled.end()) {
      if (sampled.size() >= kMostCounters) continue;
      found = sampled.emplace(name, GpuCounterTotals()).first;
    }
    found->second.sum += reading.sum;
    found->second.covered_ns += span_ns;
  }
}

void ProcessMeter::Update(const TargetStanding& standing) {
  standing_ = standing;
  losses_ = LossTotals();
  losses_.Add(standing.account);
  ring_fill_ = std::max(ring_fill_, standing.ring_fill);
}

void ProcessMeter::End() {
  ended_ns_ = BootNs();
  standing_.counted_gpus.clear();
  standing_.external_gpus.clear();
}

std::string ProcessMeter::KeyOf(uint32_t agent_id) const {
  for (const TargetGpu& gpu : standing_.gpus) {
    if (gpu.agent_id == agent_id) return gpu.key;
  }
  return absl::StrCat("agent-", agent_id);
}

void ProcessMeter::AddGrowthTo(const std::set<uint64_t>& own_sessions,
                               std::map<std::string, GpuSnapshot>* gpus) {
  for (const TargetGpu& gpu : standing_.gpus) (*gpus)[gpu.key].gpu = gpu;
  const auto own = [gpus](const std::string& key, CounterOwner owner) {
    (*gpus)[key].owner = std::max((*gpus)[key].owner, owner);
  };
  for (const std::string& key : standing_.external_gpus) {
    own(key, CounterOwner::kExternal);
  }
  const bool is_own = own_sessions.count(standing_.counting_session) > 0;
  for (const std::string& key : standing_.counted_gpus) {
    own(key, is_own ? CounterOwner::kDaemon : CounterOwner::kUser);
  }
  for (uint32_t agent = 0; agent < gpus_.size(); ++agent) {
    Gpu& gpu = gpus_[agent];
    for (const auto& [name, counter] : gpu.sampled) {
      auto& sampled = (*gpus)[KeyOf(agent)].sampled;
      if (sampled.size() >= kMostCounters && sampled.count(name) == 0) continue;
      sampled[name].sum += counter.sum;
      sampled[name].covered_ns += counter.covered_ns;
    }
    gpu.sampled.clear();
    if (gpu.now.operations.dispatches == gpu.taken.operations.dispatches) continue;
    GpuTotals& to = (*gpus)[KeyOf(agent)].totals;
    to.operations.dispatches +=
        gpu.now.operations.dispatches - gpu.taken.operations.dispatches;
    to.operations.time_ns += gpu.now.operations.time_ns - gpu.taken.operations.time_ns;
    to.untimed += gpu.now.untimed - gpu.taken.untimed;
    to.durations.AddGrowth(gpu.now.durations, gpu.taken.durations);
    gpu.taken = gpu.now;
  }
}

void ProcessMeter::FillCounters(Gpu* gpu, const std::string& key, SeriesBudget* budget,
                                ProcessSnapshot* snapshot) {
  for (auto& [name, counter] : gpu->counters) {
    if (!counter.admission.Ask(kCounterSeries, budget)) continue;
    MeasuredCounter& totals = snapshot->counters[{key, name}];
    totals.sum += counter.totals.sum;
    totals.dispatches += counter.totals.dispatches;
  }
}

bool ProcessMeter::FillSnapshot(SeriesBudget* budget, ProcessSnapshot* snapshot) {
  if (hidden_ || !admission_.Ask(kProcessSeries, budget)) return false;
  snapshot->pid = pid_;
  snapshot->uid = uid_;
  snapshot->start_ns = start_ns_;
  snapshot->start_wall_ns = start_wall_ns_;
  snapshot->rocm = rocm_;
  snapshot->comm = comm_;
  snapshot->workload = workload_;
  snapshot->ended = ended_ns_ != 0;
  snapshot->dropped = losses_.sum();
  if (losses_.sampled_out > 0 &&
      sampled_out_admission_.Ask(kSampledOutSeries, budget)) {
    snapshot->sampled_out = losses_.sampled_out;
  }
  for (uint32_t agent = 0; agent < gpus_.size(); ++agent) {
    Gpu& gpu = gpus_[agent];
    const std::string key = KeyOf(agent);
    if (gpu.now.operations.dispatches > 0 && gpu.admission.Ask(kGpuSeries, budget)) {
      OperationTotals& totals = snapshot->gpus[key];
      totals.dispatches += gpu.now.operations.dispatches;
      totals.time_ns += gpu.now.operations.time_ns;
    }
    FillCounters(&gpu, key, budget, snapshot);
  }
  for (size_t i = 0; i < copies_.size(); ++i) {
    if (copies_[i].copies == 0) continue;
    if (!copy_admissions_[i].Ask(kCopySeries, budget)) continue;
    snapshot->copies.emplace(i, copies_[i]);
  }
  if (!names_kernels_) return true;
  if (!other_admission_.Ask(kOtherKernelsSeries, budget)) return true;
  snapshot->has_other_kernels = true;
  kernels_.Select(budget);
  kernels_.GetTotals(&snapshot->kernels, &snapshot->other_kernels);
  return true;
}

void ProcessMeter::Hide(SeriesBudget* budget) {
  Release(budget);
  hidden_ = true;
}

void ProcessMeter::Release(SeriesBudget* budget) {
  for (Gpu& gpu : gpus_) {
    gpu.admission.Release(budget);
    for (auto& [name, counter] : gpu.counters) counter.admission.Release(budget);
  }
  for (Admission& admission : copy_admissions_) admission.Release(budget);
  kernels_.Release(budget);
  other_admission_.Release(budget);
  sampled_out_admission_.Release(budget);
  admission_.Release(budget);
}

}  // namespace rocattach
