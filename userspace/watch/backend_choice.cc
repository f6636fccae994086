#include "userspace/watch/backend_choice.h"

#include <dirent.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "injector/elf_needs.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

constexpr size_t kMaxMaps = 16 << 20;
constexpr size_t kMaxEnvironment = 4 << 20;
constexpr size_t kMaxCache = 16 << 20;
constexpr char kSdk[] = "librocprofiler-sdk.so";
constexpr const char* kStandardPlaces[] = {"/lib/x86_64-linux-gnu",
                                           "/usr/lib/x86_64-linux-gnu",
                                           "/lib64",
                                           "/usr/lib64",
                                           "/lib",
                                           "/usr/lib"};

std::string DirectoryOf(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

// The SDK in a directory, in any version; empty if it is not there.
std::string SdkIn(const std::string& root, absl::string_view directory) {
  for (const char* version : {"", ".1", ".0"}) {
    std::string path = absl::StrCat(directory, "/", kSdk, version);
    if (access(absl::StrCat(root, path).c_str(), R_OK) == 0) return path;
  }
  return "";
}

// The SDK in the linker's cache, whose strings are stored one after the other.
std::string SdkInCache(const std::string& root) {
  auto cache = ReadFile(absl::StrCat(root, "/etc/ld.so.cache"), kMaxCache);
  if (!cache.ok()) return "";
  for (absl::string_view text : absl::StrSplit(*cache, '\0')) {
    if (absl::StartsWith(text, "/") &&
        absl::StrContains(text, absl::StrCat("/", kSdk)) &&
        access(absl::StrCat(root, text).c_str(), R_OK) == 0) {
      return std::string(text);
    }
  }
  return "";
}

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
  const std::string origin = DirectoryOf(register_path);
  std::vector<std::string> places;
  auto add = [&](absl::string_view list) {
    for (absl::string_view place : absl::StrSplit(list, ':', absl::SkipEmpty())) {
      places.push_back(
          absl::StrReplaceAll(place, {{"$ORIGIN", origin}, {"${ORIGIN}", origin}}));
    }
  };
  auto needs = ReadElfNeeds(absl::StrCat(root, register_path));
  if (needs.ok()) add(needs->rpath);
  for (absl::string_view variable : absl::StrSplit(environment, '\0')) {
    if (absl::ConsumePrefix(&variable, "LD_LIBRARY_PATH=")) add(variable);
  }
  if (needs.ok()) add(needs->runpath);
  for (const std::string& place : places) {
    if (std::string found = SdkIn(root, place); !found.empty()) return found;
  }
  if (std::string found = SdkInCache(root); !found.empty()) return found;
  for (const char* place : kStandardPlaces) {
    if (std::string found = SdkIn(root, place); !found.empty()) return found;
  }
  return "";
}

bool HasGpuTopology(const std::string& root, const std::string& topology) {
  const std::string nodes = absl::StrCat(root, topology, "/nodes");
  DIR* directory = opendir(nodes.c_str());
  if (directory == nullptr) return false;
  bool found = false;
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] == '.') continue;
    auto properties =
        ReadFile(absl::StrCat(nodes, "/", entry->d_name, "/properties"), 64 << 10);
    if (!properties.ok()) continue;
    for (absl::string_view line : absl::StrSplit(*properties, '\n')) {
      int simds = 0;
      if (absl::ConsumePrefix(&line, "simd_count ") && absl::SimpleAtoi(line, &simds) &&
          simds > 0) {
        found = true;
      }
    }
  }
  closedir(directory);
  return found;
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
  auto environment = ReadFile(absl::StrCat(proc, "/environ"), kMaxEnvironment);
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
