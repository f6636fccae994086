#include "userspace/doctor/library_checks.h"

#include <stdlib.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "injector/elf/elf_needs.h"

namespace rocattach {
namespace {

constexpr absl::string_view kTopology = "/sys/class/kfd/kfd/topology/nodes";
constexpr absl::string_view kRegisterName = "librocprofiler-register.so";
constexpr size_t kPidsShown = 8;

std::string Directory(absl::string_view path) {
  return std::string(path.substr(0, path.rfind('/')));
}

// The value after `key` in a topology properties file; 0 if it is not there.
uint64_t Property(absl::string_view properties, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(properties, '\n')) {
    std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    uint64_t value;
    if (words.size() == 2 && words[0] == key && absl::SimpleAtoi(words[1], &value))
      return value;
  }
  return 0;
}

std::vector<CheckItem> TopologyGpus(const Machine& machine) {
  std::vector<CheckItem> gpus;
  for (const std::string& path :
       machine.Glob(absl::StrCat(kTopology, "/*/properties"))) {
    auto properties = machine.Read(path);
    // A node without SIMDs is a CPU.
    if (!properties.ok() || Property(*properties, "simd_count") == 0) continue;
    std::string node = Directory(path);
    auto name = machine.Read(absl::StrCat(node, "/name"));
    std::string gfx =
        GfxName(static_cast<uint32_t>(Property(*properties, "gfx_target_version")));
    gpus.push_back(
        {absl::StrCat("node ", node.substr(node.rfind('/') + 1)), CheckState::kOk,
         absl::StrCat(
             gfx, name.ok() && !name->empty() ? absl::StrCat(" (", *name, ")") : "")});
  }
  return gpus;
}

bool NeedsRegister(const ElfNeeds& needs) {
  return std::any_of(
      needs.needed.begin(), needs.needed.end(),
      [](const std::string& name) { return absl::StartsWith(name, kRegisterName); });
}

std::string MappedBy(const std::vector<pid_t>& pids) {
  if (pids.empty()) return "mapped by no process";
  std::vector<pid_t> shown(pids.begin(), pids.begin() + static_cast<ptrdiff_t>(std::min(
                                                            pids.size(), kPidsShown)));
  return absl::StrCat(
      "mapped by ", pids.size(), pids.size() == 1 ? " process (" : " processes (",
      absl::StrJoin(shown, ", "), pids.size() > kPidsShown ? ", …)" : ")");
}

// Reads the file that was scanned, even if its path names another one by now.
absl::StatusOr<ElfNeeds> NeedsOf(const LibraryCopy& copy) {
  return ReadElfNeeds(copy.file.valid() ? copy.file.ProbePath() : copy.path);
}

CheckItem DescribeCopy(const LibraryCopy& copy) {
  CheckItem item = {copy.path, CheckState::kOk,
                    absl::StrFormat("hsa_init at 0x%x, %s", copy.hsa_init_offset,
                                    MappedBy(copy.mapped_by))};
  if (std::string by = copy.file.Writers(); !by.empty()) {
    absl::StrAppend(&item.found, ", writable by ", by);
  }
  auto needs = NeedsOf(copy);
  if (!needs.ok()) {
    absl::StrAppend(&item.found,
                    ", its dependencies cannot be read: ", needs.status().message());
  } else if (NeedsRegister(*needs)) {
    absl::StrAppend(&item.found, ", depends on ", kRegisterName);
  } else {
    absl::StrAppend(&item.found, ", does not depend on ", kRegisterName);
  }
  return item;
}

// The directories of libraries besides the usual places.
std::vector<std::string> Directories(const LibraryScan& scan,
                                     const std::vector<std::string>& library_path) {
  std::vector<std::string> directories = library_path;
  for (const LibraryCopy& copy : scan.copies) {
    directories.push_back(Directory(copy.path));
  }
  return directories;
}

void AddFound(const std::vector<FoundLibrary>& found, Check* check) {
  std::vector<std::string> names;
  for (const FoundLibrary& library : found) {
    std::string file = library.real.substr(library.real.rfind('/') + 1);
    std::string soname = library.soname.empty() ? "no SONAME" : library.soname;
    check->items.push_back(
        {library.path, CheckState::kOk, absl::StrCat(soname, ", file ", file)});
    if (std::find(names.begin(), names.end(), soname) == names.end())
      names.push_back(soname);
  }
  check->found = absl::StrCat(absl::StrJoin(names, ", "), " (", found.size(),
                              found.size() == 1 ? " copy)" : " copies)");
}

}  // namespace

std::vector<FoundLibrary> FindLibraries(const Machine& machine, absl::string_view name,
                                        const std::vector<std::string>& directories) {
  std::vector<std::string> patterns;
  for (const std::string& place : LibraryScanOptions::DefaultLibraryPlaces()) {
    patterns.push_back(absl::StrCat(Directory(place), "/", name, "*.so*"));
  }
  std::vector<std::string> paths;
  for (const std::string& pattern : patterns) {
    for (std::string& path : machine.Glob(pattern)) paths.push_back(std::move(path));
  }
  // These are names of directories, not patterns.
  for (const std::string& directory : directories) {
    for (int version = -1; version < 4; ++version) {
      std::string path = version < 0
                             ? absl::StrCat(directory, "/", name, ".so")
                             : absl::StrCat(directory, "/", name, ".so.", version);
      if (machine.Exists(path)) paths.push_back(std::move(path));
    }
  }
  std::vector<FoundLibrary> found;
  for (const std::string& path : paths) {
    char* real = realpath(machine.Full(path).c_str(), nullptr);
    if (real == nullptr) continue;  // a link to nothing
    FoundLibrary library = {path, real, ""};
    free(real);
    bool known = std::any_of(found.begin(), found.end(), [&](const FoundLibrary& f) {
      return f.real == library.real;
    });
    if (known) continue;
    if (auto needs = ReadElfNeeds(library.real); needs.ok())
      library.soname = needs->soname;
    found.push_back(std::move(library));
  }
  return found;
}

std::string GfxName(uint32_t target_version) {
  return absl::StrFormat("gfx%d%x%x", target_version / 10000,
                         target_version / 100 % 100, target_version % 100);
}

Check CheckGpu(const Machine& machine) {
  Check check = {.name = "gpu"};
  check.items = TopologyGpus(machine);
  if (!machine.Exists("/dev/kfd")) {
    check.state = CheckState::kWarning;
    check.found = "no /dev/kfd";
    check.meaning = "Programs find no GPU: hsa_init fails, unless a GPU is simulated.";
    check.remedy =
        "Load the amdgpu driver (modprobe amdgpu); in a container: --device=/dev/kfd "
        "--device=/dev/dri.";
    return check;
  }
  if (check.items.empty()) {
    check.state = CheckState::kWarning;
    check.found = "/dev/kfd, but no GPU in its topology";
    check.meaning = "The driver is loaded but has no compute-capable GPU.";
    check.remedy = absl::StrCat(
        "See the kernel log (dmesg | grep -i kfd); in a "
        "container, mount /sys for ",
        kTopology, ".");
    return check;
  }
  check.found = absl::StrCat("/dev/kfd, ", check.items.size(),
                             check.items.size() == 1 ? " GPU" : " GPUs");
  if (!machine.CanOpen("/dev/kfd", true)) {
    check.state = CheckState::kNote;
    check.meaning =
        "This user cannot open /dev/kfd, so programs started by this user find no GPU. "
        "Profiling other users' programs does not need it.";
    check.remedy = "Add the user to the groups render and video.";
  }
  return check;
}

Check CheckHsaRuntimes(const LibraryScan& scan, bool all_processes) {
  Check check = {.name = "hsa-runtime"};
  for (const LibraryCopy& copy : scan.copies) check.items.push_back(DescribeCopy(copy));
  for (const RejectedLibrary& library : scan.rejected) {
    check.items.push_back({library.path, CheckState::kWarning,
                           absl::StrCat("skipped: ", library.reason)});
  }
  check.found = absl::StrCat(
      scan.copies.size(), scan.copies.size() == 1 ? " copy" : " copies",
      scan.rejected.empty() ? "" : absl::StrCat(", ", scan.rejected.size(), " skipped"),
      all_processes ? "" : "; other users' processes could not be inspected");
  if (scan.copies.empty()) {
    check.state = CheckState::kFailed;
    check.meaning = "There is no hsa_init to probe, so no GPU process can be seen.";
    check.remedy =
        "Install the HSA runtime (Debian: libhsa-runtime64-1; ROCm: hsa-rocr), or "
        "specify its path with --library PATH if it is not in a standard location.";
    return check;
  }
  if (!scan.rejected.empty()) {
    check.state = CheckState::kWarning;
    check.meaning = "Processes that use a skipped copy are not seen.";
    check.remedy = "See the reason for each copy.";
    return check;
  }
  check.meaning = "hsa_init of each copy is probed, in all processes that map it.";
  return check;
}

Check CheckRocprofilerRegister(const Machine& machine, const LibraryScan& scan,
                               const std::vector<std::string>& library_path) {
  Check check = {.name = "rocprofiler-register"};
  auto found = FindLibraries(machine, "librocprofiler-register",
                             Directories(scan, library_path));
  bool needed =
      std::any_of(scan.copies.begin(), scan.copies.end(), [](const LibraryCopy& copy) {
        auto needs = NeedsOf(copy);
        return needs.ok() && NeedsRegister(*needs);
      });
  if (!found.empty()) {
    AddFound(found, &check);
    check.meaning = "Runtimes of ROCm 6.2 and later register their API tables with it.";
  } else if (needed) {
    check.state = CheckState::kWarning;
    check.found = "not found in the standard locations";
    check.meaning =
        "A copy of the HSA runtime depends on it: programs that use that copy start "
        "only if their library path contains it.";
    check.remedy =
        "Install rocprofiler-register from the same ROCm version as the runtime.";
  } else {
    check.state = CheckState::kNote;
    check.found = "not found";
    check.meaning =
        "No copy of the HSA runtime depends on it; kernels and copies are recorded "
        "without it.";
  }
  return check;
}

Check CheckRocprofilerSdk(const Machine& machine, const LibraryScan& scan,
                          const std::vector<std::string>& library_path) {
  Check check = {.name = "rocprofiler-sdk"};
  auto found =
      FindLibraries(machine, "librocprofiler-sdk", Directories(scan, library_path));
  if (!found.empty()) {
    AddFound(found, &check);
    check.meaning = "Provides hardware counters and HIP API traces.";
  } else {
    check.state = CheckState::kNote;
    check.found = "not found";
    check.meaning =
        "Required for hardware counters and HIP API traces; not for kernels, copies "
        "and their times.";
    check.remedy = "Install rocprofiler-sdk 1.0 or later (ROCm 7.0).";
  }
  return check;
}

}  // namespace rocattach
