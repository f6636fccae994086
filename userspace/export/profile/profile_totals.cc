#include "userspace/export/profile/profile_totals.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "userspace/export/common/copy_direction.h"
#include "userspace/report/workload_attributes.h"

namespace rocattach {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

int64_t Saturated(uint64_t value) {
  return static_cast<int64_t>(std::min<uint64_t>(value, kMost));
}

// Profiles contain whole numbers only.
int64_t Rounded(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 9.2e18) return kMost;
  if (value <= -9.2e18) return -kMost;
  return std::llround(value);
}

}  // namespace

absl::string_view ContainerId(absl::string_view cgroup) {
  constexpr size_t kIdDigits = 64;
  size_t digits = 0;
  absl::string_view found;
  for (size_t i = 0; i < cgroup.size(); ++i) {
    digits =
        absl::ascii_isxdigit(static_cast<unsigned char>(cgroup[i])) ? digits + 1 : 0;
    // Take the innermost one, as containers can be nested.
    if (digits == kIdDigits) found = cgroup.substr(i + 1 - kIdDigits, kIdDigits);
  }
  return found;
}

ProfileTotals::Process* ProfileTotals::Of(const ExportProcess& process) {
  std::unique_ptr<Process>& found = open_[&process];
  if (found == nullptr) found = std::make_unique<Process>();
  return found.get();
}

ProfileTotals::Totals* ProfileTotals::TotalsOf(Process* process, const Path& path) {
  const auto found = process->paths.find(path);
  if (found != process->paths.end()) return &found->second;
  if (paths_ < max_paths_) {
    ++paths_;
    return &process->paths[path];
  }
  Path others;
  others.others = true;
  return &process->paths[others];
}

void ProfileTotals::Add(const ExportProcess& process,
                        absl::Span<const rocattach_dispatch> records) {
  Process* own = Of(process);
  for (const rocattach_dispatch& r : records) {
    Totals* totals = TotalsOf(own, {false, false, r.agent_id, r.queue_id, r.kernel_id});
    ++totals->dispatches;
    if (!HasTimes(r)) continue;
    totals->kernel_time_ns += r.end_ns - r.start_ns;
    if (own->begin_ns == 0 || r.start_ns < own->begin_ns) own->begin_ns = r.start_ns;
    own->end_ns = std::max(own->end_ns, r.end_ns);
  }
}

void ProfileTotals::Add(const ExportProcess& process,
                        absl::Span<const rocattach_copy> records) {
  Process* own = Of(process);
  for (const rocattach_copy& r : records) {
    const v1::Agent* destination = process.FindAgent(r.dst_agent_id);
    const bool to_gpu =
        destination != nullptr && destination->type() == v1::AGENT_TYPE_GPU;
    const uint32_t agent = to_gpu ? r.dst_agent_id : r.src_agent_id;
    TotalsOf(own, {true, false, agent, r.direction, 0})->copied_bytes += r.bytes;
    if (!HasTimes(r)) continue;
    if (own->begin_ns == 0 || r.start_ns < own->begin_ns) own->begin_ns = r.start_ns;
    own->end_ns = std::max(own->end_ns, r.end_ns);
  }
}

uint32_t ProfileTotals::CounterOf(Process* process, absl::string_view name,
                                  const CounterRecord& value) {
  const auto key = std::make_pair(value.plan, uint32_t{value.counter});
  const auto known = process->counters.find(key);
  if (known != process->counters.end()) return known->second;
  const std::string text = name.empty() || counters_.size() >= kMaxCounters
                               ? "other counters"
                               : std::string(name);
  const auto [position, added] =
      counters_.try_emplace(text, static_cast<uint32_t>(data_.counters.size()));
  if (added) data_.counters.push_back(text);
  return process->counters[key] = position->second;
}

void ProfileTotals::Add(const ExportProcess& process, const CountedDispatch& counted) {
  Process* own = Of(process);
  const CounterRecord& first = counted.values[0];
  const uint32_t queue = counted.dispatch == nullptr ? 0 : counted.dispatch->queue_id;
  Totals* totals =
      TotalsOf(own, {false, false, first.agent_id, queue, first.kernel_id});
  for (const CounterRecord& value : counted.values) {
    const uint32_t counter =
        CounterOf(own, process.CounterName(value.plan, value.counter), value);
    totals->counters[counter] += value.sum;
  }
}

uint32_t ProfileTotals::Frame(std::string name, std::string system_name) {
  if (system_name == name) system_name.clear();
  const auto [frame, added] = frames_.try_emplace(
      std::make_pair(name, system_name), static_cast<uint32_t>(data_.frames.size()));
  if (added) data_.frames.push_back({std::move(name), std::move(system_name)});
  return frame->second;
}

void ProfileTotals::End(const ExportProcess& process) {
  const std::unique_ptr<Process> own = std::move(open_[&process]);
  open_.erase(&process);
  if (own == nullptr) return;
  if (data_.recording_id.empty()) data_.recording_id = process.header().recording_id();
  ProfileProcess& described = data_.processes.emplace_back();
  described.pid = process.pid();
  described.name = process.process().comm();
  described.executable = process.process().executable();
  described.container = std::string(ContainerId(process.process().cgroup()));
  for (auto& attribute : WorkloadAttributes(process.process().workload())) {
    if (attribute.first == "container.id") {
      described.container = attribute.second;
    } else {
      described.workload.push_back(std::move(attribute));
    }
  }
  described.host = process.header().hostname();
  described.begin_ns = process.RealtimeNs(own->begin_ns);
  described.end_ns = process.RealtimeNs(own->end_ns);
  std::map<uint32_t, int> gpus;
  for (const auto& [id, agent] : process.agents()) {
    if (agent.type() != v1::AGENT_TYPE_GPU) continue;
    gpus[id] = static_cast<int>(described.gpus.size());
    described.gpus.push_back({absl::StrCat("GPU ", process.PlaceOf(id).type_relative),
                              agent.name(), agent.product_name(), agent.uuid()});
  }
  // Users see a kernel that was loaded twice as one. Sorted, so that the output does
  // not depend on hashes.
  std::map<Path, const Totals*> sorted;
  for (const auto& [path, totals] : own->paths) sorted[path] = &totals;
  std::map<std::pair<std::vector<uint32_t>, int>, Totals> samples;
  for (const auto& [path, totals] : sorted) {
    const auto gpu = gpus.find(path.agent_id);
    const int position = gpu == gpus.end() ? -1 : gpu->second;
    samples[{FramesOf(process, path, position), position}].Add(*totals);
  }
  for (auto& [key, totals] : samples) AddSample(key.first, key.second, totals);
}

void ProfileTotals::Totals::Add(const Totals& other) {
  kernel_time_ns += other.kernel_time_ns;
  dispatches += other.dispatches;
  copied_bytes += other.copied_bytes;
  for (const auto& [counter, sum] : other.counters) counters[counter] += sum;
}

std::vector<uint32_t> ProfileTotals::FramesOf(const ExportProcess& process,
                                              const Path& path, int gpu) {
  const ProfileProcess& described = data_.processes.back();
  const std::string where =
      gpu < 0 ? ""
              : absl::StrCat(" (", described.gpus[static_cast<size_t>(gpu)].label, ")");
  std::vector<uint32_t> frames;
  if (path.others) {
    frames = {Frame("other kernels and copies")};
  } else if (path.copy) {
    frames = {Frame(CopyDirectionText(path.queue_id)),
              Frame(absl::StrCat("copies", where))};
  } else {
    const ExportKernel* kernel = process.FindKernel(path.kernel_id);
    frames = {kernel == nullptr
                  ? Frame(absl::StrCat("kernel ", path.kernel_id, " (name not known)"))
                  : Frame(kernel->display_name, kernel->kernel.name()),
              Frame(absl::StrCat("queue ", path.queue_id, where))};
  }
  frames.push_back(Frame(absl::StrCat(
      described.name.empty() ? "process" : described.name, " (", described.pid, ")")));
  return frames;
}

void ProfileTotals::AddSample(std::vector<uint32_t> frames, int gpu,
                              const Totals& totals) {
  ProfileSample& sample = data_.samples.emplace_back();
  sample.process = static_cast<uint32_t>(data_.processes.size() - 1);
  sample.frames = std::move(frames);
  sample.gpu = gpu;
  auto add = [&](uint32_t which, int64_t total) {
    if (total != 0) sample.totals.emplace_back(which, total);
  };
  add(kTotalKernelTime, Saturated(totals.kernel_time_ns));
  add(kTotalDispatches, Saturated(totals.dispatches));
  add(kTotalCopiedBytes, Saturated(totals.copied_bytes));
  for (const auto& [counter, sum] : totals.counters) {
    add(kFixedTotals + counter, Rounded(sum));
  }
}

}  // namespace rocattach
