#include "userspace/watch/windows/backend_choice.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "userspace/base/file.h"
#include "userspace/base/process.h"
#include "userspace/watch/discovery/library_search.h"

namespace rocattach {
namespace {

constexpr size_t kMaxMaps = 16 << 20;
// Maximum number of CPUs and GPUs of a machine.
constexpr size_t kMostNodes = 4096;
constexpr char kSdk[] = "librocprofiler-sdk.so";

}  // namespace

std::string MappedRegister(const std::string& maps) {
  for (absl::string_view line : absl::StrSplit(maps, '\n')) {
    const size_t slash = line.find('/');
    if (slash == line.npos) continue;
    const absl::string_view path = line.substr(slash);
    if (absl::StrContains(path.substr(path.rfind('/')),
                          "/librocprofiler-register.so")) {
      return std::string(path);
    }
  }
  return "";
}

std::string FindSdk(const std::string& root, const std::string& register_path,
                    const std::string& environment) {
  return FindLibrary(root, register_path, environment,
                     {kSdk, absl::StrCat(kSdk, ".1"), absl::StrCat(kSdk, ".0")});
}

bool HasGpuTopology(const std::string& root, const std::string& topology) {
  const std::string nodes = absl::StrCat(root, topology, "/nodes");
  // The folder belongs to the target, so it may contain anything, in any amount.
  const auto entries = ListFolder(nodes, kMostNodes);
  if (!entries.ok()) return false;
  for (const std::string& name : entries->names) {
    auto properties = ReadFile(absl::StrCat(nodes, "/", name, "/properties"), 64 << 10);
    if (!properties.ok()) continue;
    for (absl::string_view line : absl::StrSplit(*properties, '\n')) {
      int simds = 0;
      if (absl::ConsumePrefix(&line, "simd_count ") && absl::SimpleAtoi(line, &simds) &&
          simds > 0) {
        return true;
      }
    }
  }
  return false;
}

BackendChoice ChooseBackend(pid_t pid, const SdkSearch& search) {
  const std::string proc = absl::StrCat("/proc/", pid);
  const std::string root = absl::StrCat(proc, "/root");
  BackendChoice choice;
  if (!search.allowed) {
    choice.missing = "rocprofiler-sdk was switched off with --backend hsa";
    return choice;
  }
  auto maps = ReadFile(absl::StrCat(proc, "/maps"), kMaxMaps);
  const std::string mapped = maps.ok() ? MappedRegister(*maps) : "";
  if (mapped.empty()) {
    choice.missing =
        "its HSA runtime has no rocprofiler-register: hardware counters need ROCm 7.0 "
        "or later";
    return choice;
  }
  auto environment = ReadEnvironment(pid);
  choice.sdk = FindSdk(root, mapped, environment.ok() ? *environment : "");
  if (choice.sdk.empty()) {
    choice.missing =
        "the process would not find librocprofiler-sdk.so; install "
        "rocprofiler-sdk, or set LD_LIBRARY_PATH for the process";
    return choice;
  }
  if (!HasGpuTopology(root, search.topology)) {
    choice.missing = absl::StrCat("it sees no GPU in ", search.topology,
                                  "; in a container, mount /sys");
    return choice;
  }
  choice.backend = ROCATTACH_BACKEND_SDK;
  return choice;
}

}  // namespace rocattach
