#include "userspace/push/profile_accumulator.h"

#include <algorithm>
#include <limits>
#include <set>

#include "userspace/telemetry/metric_labels.h"

namespace rocattach {
namespace {

// The growth of totals, which never decrease.
OperationTotals Difference(const OperationTotals& now, const OperationTotals& before) {
  return {now.dispatches - std::min(now.dispatches, before.dispatches),
          now.time_ns - std::min(now.time_ns, before.time_ns)};
}

void AddTo(const OperationTotals& more, OperationTotals* sum) {
  sum->dispatches += more.dispatches;
  sum->time_ns += more.time_ns;
}

// Builds the lists that the encoders take.
class ProfileBuilder {
 public:
  explicit ProfileBuilder(ProfileData* data) : data_(data) {}

  uint32_t Frame(const std::string& name, const std::string& system_name = "") {
    const auto [found, added] = frames_.try_emplace(
        {name, system_name}, static_cast<uint32_t>(data_->frames.size()));
    if (added) data_->frames.push_back({name, system_name});
    return found->second;
  }
  void Add(std::vector<uint32_t> frames,
           const std::vector<std::pair<uint32_t, uint64_t>>& totals) {
    ProfileSample sample;
    sample.process = static_cast<uint32_t>(data_->processes.size() - 1);
    sample.frames = std::move(frames);
    for (const auto& [which, total] : totals) {
      if (total == 0) continue;
      constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
      sample.totals.emplace_back(which, static_cast<int64_t>(std::min(total, kMost)));
    }
    if (!sample.totals.empty()) data_->samples.push_back(std::move(sample));
  }

 private:
  ProfileData* const data_;
  std::map<std::pair<std::string, std::string>, uint32_t> frames_;
};

}  // namespace

ProfileLabels ProfileAccumulator::LabelsOf(const WorkloadIdentity& workload) const {
  ProfileLabels labels;
  const auto add = [&labels](const char* name, const std::string& value) {
    if (!value.empty()) labels.emplace_back(name, value);
  };
  for (const auto& label : WorkloadLabels(workload, {}))
    add(label.name.c_str(), label.value);
  add("node", node_);
  std::sort(labels.begin(), labels.end());
  return labels;
}

ProfileAccumulator::Process* ProfileAccumulator::PendingOf(
    const ProcessSnapshot& process, uint64_t begin_ns) {
  const Key key = {process.pid, process.start_ns};
  auto found = pending_.find(key);
  if (found == pending_.end() && pending_.size() >= kMostProcesses) {
    Process& others = pending_[{0, 0}];
    others.comm = "other processes";
    if (others.begin_ns == 0) others.begin_ns = begin_ns;
    return &others;
  }
  if (found == pending_.end()) {
    found = pending_.emplace(key, Process()).first;
    found->second.begin_ns = begin_ns;
  }
  found->second.comm = process.comm;
  // It may become known only after the attach.
  found->second.workload = process.workload;
  return &found->second;
}

void ProfileAccumulator::AddGrowth(const ProcessSnapshot& process, Totals* before,
                                   Process* to) {
  for (const KernelSnapshot& kernel : process.kernels) {
    Kernel& known = before->kernels[kernel.id];
    const OperationTotals growth = Difference(kernel.totals, known.totals);
    known.totals = kernel.totals;
    if (growth.dispatches == 0) continue;
    auto found = to->growth.kernels.find(kernel.id);
    if (found == to->growth.kernels.end()) {
      if (kernels_ >= kMostKernels) {
        AddTo(growth, &to->growth.other);
        continue;
      }
      ++kernels_;
      found = to->growth.kernels.emplace(kernel.id, Kernel{kernel.name, {}}).first;
    }
    AddTo(growth, &found->second.totals);
  }
  // If no kernels are distinguished, all dispatches are those of others.
  OperationTotals other = process.other_kernels;
  if (!process.has_other_kernels && process.kernels.empty()) {
    for (const auto& [gpu, totals] : process.gpus) AddTo(totals, &other);
  }
  AddTo(Difference(other, before->other), &to->growth.other);
  before->other = other;
  for (const auto& [direction, totals] : process.copies) {
    uint64_t& known = before->copied_bytes[direction];
    const uint64_t growth = totals.bytes - std::min(totals.bytes, known);
    known = totals.bytes;
    if (growth > 0) to->growth.copied_bytes[direction] += growth;
  }
}

void ProfileAccumulator::Add(const NodeSnapshot& snapshot, uint64_t now_ns) {
  std::set<Key> present;
  const uint64_t begin_ns = last_ns_ == 0 ? now_ns : std::min(last_ns_, now_ns);
  for (const ProcessSnapshot& process : snapshot.processes) {
    const Key key = {process.pid, process.start_ns};
    present.insert(key);
    AddGrowth(process, &before_[key], PendingOf(process, begin_ns));
  }
  std::erase_if(before_,
                [&](const auto& entry) { return !present.contains(entry.first); });
  std::erase_if(pending_,
                [](const auto& entry) { return entry.second.growth.empty(); });
  last_ns_ = now_ns;
}

std::vector<ProfileLabels> ProfileAccumulator::Workloads() const {
  std::set<ProfileLabels> workloads;
  for (const auto& [key, process] : pending_)
    workloads.insert(LabelsOf(process.workload));
  return {workloads.begin(), workloads.end()};
}

ProfileData ProfileAccumulator::Profile(const ProfileLabels& workload,
                                        Demangler* demangler) const {
  ProfileData data;
  ProfileBuilder builder(&data);
  for (const auto& [key, process] : pending_) {
    if (LabelsOf(process.workload) != workload) continue;
    ProfileProcess& described = data.processes.emplace_back();
    described.pid = key.first;
    described.name = process.comm;
    described.executable = process.workload.executable;
    described.host = node_;
    // If the clock has been set back, the span is empty rather than negative.
    described.begin_ns = std::min(process.begin_ns, last_ns_);
    described.end_ns = last_ns_;
    const uint32_t root =
        builder.Frame(process.comm.empty() ? "process" : process.comm);
    const auto add = [&](uint32_t frame, const OperationTotals& totals) {
      builder.Add({frame, root}, {{kTotalKernelTime, totals.time_ns},
                                  {kTotalDispatches, totals.dispatches}});
    };
    for (const auto& [id, kernel] : process.growth.kernels) {
      add(builder.Frame(demangler->Demangle(kernel.name), kernel.name), kernel.totals);
    }
    add(builder.Frame("other kernels"), process.growth.other);
    for (const auto& [direction, bytes] : process.growth.copied_bytes) {
      builder.Add(
          {builder.Frame(DirectionLabel(direction)), builder.Frame("copies"), root},
          {{kTotalCopiedBytes, bytes}});
    }
  }
  return data;
}

void ProfileAccumulator::Drop(const ProfileLabels& workload) {
  std::erase_if(pending_, [&](const auto& entry) {
    if (LabelsOf(entry.second.workload) != workload) return false;
    kernels_ -= entry.second.growth.kernels.size();
    return true;
  });
}

}  // namespace rocattach
