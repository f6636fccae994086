#include "userspace/watch/discovery/sdk_version.h"

#include <limits.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "userspace/base/file.h"
#include "userspace/base/process.h"
#include "userspace/watch/windows/backend_choice.h"

namespace rocattach {
namespace {

constexpr size_t kMaxMapsText = 16 << 20;
constexpr int kMaxLinks = 8;
// As in userspace/collector/sdk/late_sdk.cc.
constexpr uint32_t kOldestMajor = 1, kOldestMinor = 3;

// The last part of the path to which the links at `path` lead, as far as they stay in
// their directory, as the links of packages do.
std::string LastName(const std::string& root, std::string path) {
  for (int i = 0; i < kMaxLinks; ++i) {
    char target[PATH_MAX];
    const ssize_t bytes =
        readlink(absl::StrCat(root, path).c_str(), target, sizeof(target));
    if (bytes <= 0) break;
    const std::string name(target, static_cast<size_t>(bytes));
    if (name.find('/') != std::string::npos) break;
    path = absl::StrCat(path.substr(0, path.rfind('/') + 1), name);
  }
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

absl::Status CheckSdkCanBeAdded(const std::string& root, const std::string& path) {
  const std::string name = LastName(root, path);
  const size_t suffix = name.find(".so.");
  if (suffix == std::string::npos) return absl::OkStatus();
  std::vector<uint32_t> version;
  for (absl::string_view part : absl::StrSplit(name.substr(suffix + 4), '.')) {
    uint32_t number = 0;
    if (!absl::SimpleAtoi(part, &number)) return absl::OkStatus();
    version.push_back(number);
  }
  if (version.size() < 2 ||
      version >= std::vector<uint32_t>{kOldestMajor, kOldestMinor}) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("its rocprofiler-sdk is version ", absl::StrJoin(version, "."),
                   ", which cannot be added to a running process; ", kOldestMajor, ".",
                   kOldestMinor, " and later can"));
}

absl::Status CheckSdkIsNotLoaded(pid_t pid) {
  const auto maps = ReadFile(absl::StrCat("/proc/", pid, "/maps"), kMaxMapsText);
  if (!maps.ok()) return maps.status();
  for (absl::string_view line : absl::StrSplit(*maps, '\n')) {
    const size_t slash = line.rfind('/');
    if (slash == absl::string_view::npos ||
        !absl::StartsWith(line.substr(slash), "/librocprofiler-sdk.so")) {
      continue;
    }
    return absl::FailedPreconditionError(
        "it has loaded rocprofiler-sdk already, for another tool or in an attempt to "
        "add it that failed or has not ended");
  }
  return absl::OkStatus();
}

absl::Status CheckSdkOfProcessCanBeAdded(pid_t pid) {
  const std::string proc = absl::StrCat("/proc/", pid);
  const auto maps = ReadFile(absl::StrCat(proc, "/maps"), kMaxMapsText);
  const std::string mapped = maps.ok() ? MappedRegister(*maps) : "";
  if (mapped.empty()) return absl::OkStatus();
  const auto environment = ReadEnvironment(pid);
  const std::string root = absl::StrCat(proc, "/root");
  const std::string sdk = FindSdk(root, mapped, environment.ok() ? *environment : "");
  return sdk.empty() ? absl::OkStatus() : CheckSdkCanBeAdded(root, sdk);
}

}  // namespace rocattach
