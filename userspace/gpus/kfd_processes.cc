#include "userspace/gpus/kfd_processes.h"

#include <algorithm>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"
#include "userspace/gpus/gpu_devices.h"
#include "userspace/gpus/number_file.h"

namespace rocattach {
namespace {

// There are some four entries for each GPU.
constexpr size_t kMostEntries = 8 * kMostGpus;
constexpr size_t kMostNumberBytes = 64;

// Unset if the driver has no such file for this GPU, or not any more.
std::optional<uint64_t> ReadValue(const std::string& path, uint64_t* malformed) {
  const auto text = ReadFile(path, kMostNumberBytes);
  if (!text.ok()) {
    if (absl::IsOutOfRange(text.status())) ++*malformed;
    return std::nullopt;
  }
  const auto value = NumberIn(*text);
  if (!value.has_value()) ++*malformed;
  return value;
}

}  // namespace

absl::StatusOr<KfdProcesses> ListKfdProcesses(const GpuRoots& roots, size_t most) {
  ASSIGN_OR_RETURN(const FolderListing names, ListFolder(roots.kfd + "/proc", most));
  KfdProcesses processes;
  processes.cut = names.cut;
  for (const std::string& name : names.names) {
    pid_t pid = 0;
    if (absl::SimpleAtoi(name, &pid) && pid > 0) processes.pids.push_back(pid);
  }
  std::sort(processes.pids.begin(), processes.pids.end());
  return processes;
}

std::map<uint32_t, ProcessGpuUse> ReadKfdProcess(const GpuRoots& roots, pid_t pid,
                                                 uint64_t* malformed) {
  std::map<uint32_t, ProcessGpuUse> uses;
  const std::string folder = absl::StrCat(roots.kfd, "/proc/", pid, "/");
  const auto names = ListFolder(folder, kMostEntries);
  if (!names.ok()) return uses;
  for (const std::string& entry : names->names) {
    absl::string_view name = entry;
    uint32_t gpu_id = 0;
    const auto is = [&](absl::string_view prefix) {
      return absl::ConsumePrefix(&name, prefix) && absl::SimpleAtoi(name, &gpu_id);
    };
    if (is("vram_")) {
      uses[gpu_id].kfd_vram_bytes = ReadValue(folder + entry, malformed);
    } else if (is("sdma_")) {
      uses[gpu_id].sdma_us = ReadValue(folder + entry, malformed);
    } else if (is("stats_")) {
      ProcessGpuUse& use = uses[gpu_id];
      use.cu_occupancy = ReadValue(folder + entry + "/cu_occupancy", malformed);
      use.evicted_ms = ReadValue(folder + entry + "/evicted_ms", malformed);
    }
  }
  std::erase_if(uses, [](const auto& use) { return use.second == ProcessGpuUse(); });
  return uses;
}

}  // namespace rocattach
