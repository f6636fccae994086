#include "userspace/gpus/gpu_usage_reader.h"

#include <sys/stat.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "userspace/base/file.h"
#include "userspace/gpus/drm_clients.h"
#include "userspace/gpus/kfd_processes.h"
#include "userspace/gpus/number_file.h"

namespace rocattach {
namespace {

constexpr size_t kMostStatBytes = 4 << 10;
constexpr size_t kMostCommBytes = 256;

// NOT_FOUND if there is no such process.
absl::StatusOr<uint64_t> StartTicks(const std::string& folder) {
  const auto stat = ReadFile(folder + "/stat", kMostStatBytes);
  if (!stat.ok()) return absl::NotFoundError(stat.status().message());
  return StartTicksIn(*stat);
}

void AddTo(uint64_t value, std::optional<uint64_t>* sum) {
  *sum = sum->value_or(0) + value;
}

void Merge(const ProcessGpuUse& from, ProcessGpuUse* to) {
  const auto add = [](const std::optional<uint64_t>& value,
                      std::optional<uint64_t>* sum) {
    if (value.has_value()) AddTo(*value, sum);
  };
  add(from.kfd_vram_bytes, &to->kfd_vram_bytes);
  add(from.sdma_us, &to->sdma_us);
  add(from.cu_occupancy, &to->cu_occupancy);
  add(from.evicted_ms, &to->evicted_ms);
}

}  // namespace

void GpuUsageReader::Fail(uint64_t* count, absl::Status why) {
  ++*count;
  failures_.last = std::move(why);
}

void GpuUsageReader::ReadDevices() {
  // The driver counts changes of its topology. Nodes keep their properties in between.
  const auto generation = ReadNumber(roots_.kfd + "/topology/generation_id");
  if (devices_.empty() || !generation.has_value() || *generation != generation_) {
    auto devices = ReadGpuDevices(roots_);
    if (devices.ok()) {
      devices_ = *std::move(devices);
    } else {
      devices_.clear();
      if (!absl::IsNotFound(devices.status())) {
        Fail(&failures_.topology, devices.status());
      }
    }
    generation_ = generation.value_or(0);
  }
  ReadChanging(roots_, &devices_);
}

std::vector<pid_t> GpuUsageReader::Candidates(bool everyone) {
  kfd_.clear();
  if (auto listed = ListKfdProcesses(roots_, limits_.processes); listed.ok()) {
    kfd_.insert(listed->pids.begin(), listed->pids.end());
    if (listed->cut) {
      Fail(&failures_.crowded,
           absl::ResourceExhaustedError(absl::StrCat(
               roots_.kfd, "/proc contains more than ", limits_.processes)));
    }
  } else if (!absl::IsNotFound(listed.status())) {
    Fail(&failures_.kfd, listed.status());
  }
  std::set<pid_t> all = kfd_;
  all.insert(drm_.begin(), drm_.end());
  if (everyone) {
    if (auto names = ListFolder(roots_.proc, limits_.all_processes); names.ok()) {
      for (const std::string& name : names->names) {
        pid_t pid = 0;
        if (absl::SimpleAtoi(name, &pid) && pid > 0) all.insert(pid);
      }
      if (names->cut) {
        Fail(&failures_.crowded,
             absl::ResourceExhaustedError(absl::StrCat(
                 roots_.proc, " contains more than ", limits_.all_processes)));
      }
    }
  }
  return {all.begin(), all.end()};
}

std::string GpuUsageReader::KeyOfId(uint32_t gpu_id) const {
  for (const GpuDevice& device : devices_) {
    if (device.gpu_id == gpu_id) return device.key;
  }
  return absl::StrCat("kfd-", gpu_id);
}

std::string GpuUsageReader::KeyOfFile(const std::string& pci,
                                      std::optional<uint32_t> render_minor) const {
  const GpuDevice* of_address = nullptr;
  int at_address = 0;
  for (const GpuDevice& device : devices_) {
    if (render_minor.has_value() && device.render_minor == render_minor) {
      return device.key;
    }
    if (device.pci != pci) continue;
    of_address = &device;
    ++at_address;
  }
  if (at_address == 1) return of_address->key;
  // A GPU that KFD does not know, or one that has partitions.
  return pci;
}

void GpuUsageReader::AddClients(pid_t pid, GpuProcess* process, SeenClients* seen,
                                size_t* room) {
  const DrmScan scan = ReadDrmClients(roots_, pid, room);
  if (scan.unreadable) {
    // For a process that has just ended, this is no loss.
    if (kfd_.count(pid) == 0) return;
    Fail(&failures_.drm, absl::PermissionDeniedError(absl::StrCat(
                             "the descriptors of process ", pid, " cannot be read")));
    return;
  }
  if (scan.cut) {
    Fail(&failures_.crowded,
         absl::ResourceExhaustedError("there are more descriptors than are looked at"));
  }
  for (const DrmClient& client : scan.clients) {
    const std::string key = KeyOfFile(client.pci, client.render_minor);
    if (key.empty() || !seen->emplace(client.pci, client.id).second) continue;
    ProcessGpuUse& use = process->gpus[key];
    if (client.vram_bytes.has_value()) AddTo(*client.vram_bytes, &use.drm_vram_bytes);
    for (const auto& [engine, ns] : client.engine_ns) {
      if (use.engine_ns.size() < kMostEngines || use.engine_ns.count(engine) > 0) {
        use.engine_ns[engine] += ns;
      }
    }
  }
}

std::optional<GpuProcess> GpuUsageReader::ReadProcess(pid_t pid, SeenClients* seen,
                                                      size_t* room) {
  const std::string folder = absl::StrCat(roots_.proc, "/", pid);
  const auto ticks = StartTicks(folder);
  if (!ticks.ok()) {
    if (kfd_.count(pid) > 0) Fail(&failures_.unknown_process, ticks.status());
    return std::nullopt;
  }
  GpuProcess process;
  process.id = {pid, *ticks};
  if (kfd_.count(pid) > 0) {
    uint64_t malformed = 0;
    for (const auto& [gpu_id, use] : ReadKfdProcess(roots_, pid, &malformed)) {
      Merge(use, &process.gpus[KeyOfId(gpu_id)]);
    }
    if (malformed > 0) {
      failures_.malformed += malformed - 1;
      Fail(&failures_.malformed,
           absl::DataLossError(absl::StrCat("a file of process ", pid, " in ",
                                            roots_.kfd, "/proc contains no number")));
    }
  }
  AddClients(pid, &process, seen, room);
  if (process.gpus.empty()) return std::nullopt;
  if (auto comm = ReadFile(folder + "/comm", kMostCommBytes); comm.ok()) {
    process.comm = std::string(absl::StripSuffix(*comm, "\n"));
  }
  struct stat owner;
  if (stat(folder.c_str(), &owner) == 0) process.uid = owner.st_uid;
  // All of this belongs to the process only if it still has its ID.
  const auto after = StartTicks(folder);
  if (!after.ok() || *after != *ticks) return std::nullopt;
  return process;
}

GpuUsage GpuUsageReader::Read(bool everyone) {
  ReadDevices();
  GpuUsage usage;
  SeenClients seen;
  size_t room = limits_.descriptors;
  std::set<pid_t> with_clients;
  for (const pid_t pid : Candidates(everyone)) {
    if (usage.processes.size() == limits_.processes) {
      Fail(&failures_.crowded,
           absl::ResourceExhaustedError(
               absl::StrCat("more than ", limits_.processes, " processes use GPUs")));
      break;
    }
    auto process = ReadProcess(pid, &seen, &room);
    if (!process.has_value()) continue;
    if (kfd_.count(pid) == 0) with_clients.insert(pid);
    usage.processes.push_back(*std::move(process));
  }
  drm_ = std::move(with_clients);
  usage.devices = devices_;
  return usage;
}

}  // namespace rocattach
