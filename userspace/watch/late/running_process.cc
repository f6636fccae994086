#include "userspace/watch/late/running_process.h"

#include <dirent.h>
#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "injector/process/maps.h"
#include "injector/process/translation.h"
#include "userspace/base/file.h"
#include "userspace/base/process.h"
#include "userspace/base/status_macros.h"
#include "userspace/watch/control_group.h"
#include "userspace/watch/discovery/library_scanner.h"

namespace rocattach {
namespace {

constexpr size_t kMaxProcText = 64 << 10;
constexpr char kCgroupRoot[] = "/sys/fs/cgroup";
constexpr char kCgroupHybrid[] = "/sys/fs/cgroup/unified";
constexpr char kCgroupFreezer[] = "/sys/fs/cgroup/freezer";
// include/linux/sched.h
constexpr uint64_t kKernelThread = 0x00200000;  // PF_KTHREAD

// The value after `key` in the text of /proc/PID/status; empty if it is not there.
std::string FieldOf(const std::string& status, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    if (absl::ConsumePrefix(&line, key) && absl::ConsumePrefix(&line, ":")) {
      return std::string(absl::StripAsciiWhitespace(line));
    }
  }
  return "";
}

// A field of /proc/PID/stat, counted from 0 after the name in parentheses, which may
// contain anything; 0 if it cannot be read.
uint64_t StatField(pid_t pid, size_t index) {
  auto stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"), kMaxProcText);
  if (!stat.ok()) return 0;
  const size_t name_end = stat->rfind(')');
  if (name_end == std::string::npos) return 0;
  const std::vector<std::string> fields =
      absl::StrSplit(stat->substr(name_end + 1), ' ', absl::SkipEmpty());
  uint64_t value = 0;
  if (fields.size() > index) (void)absl::SimpleAtoi(fields[index], &value);
  return value;
}

uint64_t FlagsOf(pid_t pid) {
  return StatField(pid, 6);
}

// True if a control group is frozen, by version 2's file or version 1's. `line` is a
// line of /proc/PID/cgroup: "HIERARCHY:CONTROLLERS:PATH".
bool IsFrozenGroup(absl::string_view line) {
  const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
  if (parts.size() != 3) return false;
  if (parts[1] == "freezer") {
    auto state = ReadFile(absl::StrCat(kCgroupFreezer, parts[2], "/freezer.state"),
                          kMaxProcText);
    return state.ok() && absl::StartsWith(*state, "FROZEN");
  }
  if (parts[0] != "0") return false;
  for (const char* root : {kCgroupRoot, kCgroupHybrid}) {
    auto events =
        ReadFile(absl::StrCat(root, parts[2], "/cgroup.events"), kMaxProcText);
    if (events.ok() && absl::StrContains(*events, "frozen 1")) return true;
  }
  return false;
}

}  // namespace

bool IsBelow(pid_t pid, pid_t ancestor) {
  // Limited, because the chain may change while it is read.
  constexpr int kMostLevels = 64;
  for (int i = 0; i < kMostLevels && pid > 1; ++i) {
    if (pid == ancestor) return true;
    pid = static_cast<pid_t>(StatField(pid, 1));
  }
  return false;
}

absl::Status CheckIsRunning(pid_t pid) {
  const std::string proc = absl::StrCat("/proc/", pid);
  auto status = ReadFile(proc + "/status", kMaxProcText);
  if (!status.ok()) return absl::OkStatus();  // reported elsewhere
  if (absl::StartsWith(FieldOf(*status, "State"), "T")) {
    return absl::UnavailableError(absl::StrCat(
        "process ", pid,
        " is stopped (SIGSTOP or a terminal); let it continue (kill -CONT ", pid,
        "), then attach"));
  }
  auto groups = ReadFile(proc + "/cgroup", kMaxProcText);
  if (!groups.ok()) return absl::OkStatus();
  for (absl::string_view line : absl::StrSplit(*groups, '\n')) {
    if (!IsFrozenGroup(line)) continue;
    return absl::UnavailableError(absl::StrCat(
        "process ", pid,
        " is frozen by its control group (docker pause, systemctl freeze); "
        "let it continue, then attach"));
  }
  return absl::OkStatus();
}

absl::Status CheckIsProcess(pid_t pid) {
  if (pid <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(pid, " is not a process ID"));
  }
  if (pid == getpid()) {
    return absl::InvalidArgumentError(
        absl::StrCat("process ", pid, " is the one that is to attach"));
  }
  auto status = ReadFile(absl::StrCat("/proc/", pid, "/status"), kMaxProcText);
  if (!status.ok()) {
    return absl::NotFoundError(absl::StrCat("there is no process ", pid));
  }
  const std::string group = FieldOf(*status, "Tgid");
  if (group != absl::StrCat(pid)) {
    return absl::InvalidArgumentError(absl::StrCat(pid, " is a thread of process ",
                                                   group, "; attach to the process"));
  }
  if (absl::StartsWith(FieldOf(*status, "State"), "Z")) {
    return absl::InvalidArgumentError(
        absl::StrCat("process ", pid, " has exited and waits for its parent (zombie)"));
  }
  if ((FlagsOf(pid) & kKernelThread) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(pid, " is a thread of the kernel, not a program"));
  }
  return absl::OkStatus();
}

absl::Status CheckIsExecuted(pid_t pid, const Maps& maps) {
  const auto& mappings = maps.mappings();
  if (std::none_of(mappings.begin(), mappings.end(),
                   [](const Mapping& m) { return LooksLikeHsaRuntime(m.path); })) {
    return absl::OkStatus();
  }
  const std::string how = HowTranslated(pid, maps);
  if (how.empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("process ", pid, " cannot be attached to: ", how));
}

absl::Status CheckUsesRuntime(pid_t pid) {
  auto maps = Maps::Read(pid);
  if (absl::IsPermissionDenied(maps.status())) {
    return absl::PermissionDeniedError(
        absl::StrCat("the memory of process ", pid,
                     " cannot be read; run rocattach as root, or with CAP_SYS_PTRACE"));
  }
  if (!maps.ok()) return maps.status();
  RETURN_IF_ERROR(CheckIsExecuted(pid, *maps));
  for (const Mapping& mapping : maps->mappings()) {
    if (mapping.executable && LooksLikeHsaRuntime(mapping.path))
      return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("process ", pid,
                   " has not loaded the HSA runtime (libhsa-runtime64.so): it does not "
                   "use AMD GPUs, "
                   "or not yet"));
}

std::vector<pid_t> WithDescendants(const std::vector<pid_t>& roots) {
  std::multimap<pid_t, pid_t> children;
  for (pid_t pid : ListProcesses()) {
    auto info = ReadFile(absl::StrCat("/proc/", pid, "/status"), kMaxProcText);
    pid_t parent = 0;
    if (info.ok() && absl::SimpleAtoi(FieldOf(*info, "PPid"), &parent)) {
      children.emplace(parent, pid);
    }
  }
  std::vector<pid_t> all;
  std::set<pid_t> seen;
  for (pid_t root : roots) {
    if (seen.insert(root).second) all.push_back(root);
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const auto [begin, end] = children.equal_range(all[i]);
    for (auto child = begin; child != end; ++child) {
      if (seen.insert(child->second).second) all.push_back(child->second);
    }
  }
  return all;
}

absl::StatusOr<std::vector<pid_t>> ProcessesOfCgroup(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  ASSIGN_OR_RETURN(const std::string directory, FindControlGroup(path));
  std::vector<fs::path> groups = {directory};
  for (fs::recursive_directory_iterator
           it(directory, fs::directory_options::skip_permission_denied, error),
       end;
       it != end; it.increment(error)) {
    if (it->is_directory(error)) groups.push_back(it->path());
  }
  std::set<pid_t> pids;
  for (const fs::path& group : groups) {
    auto text = ReadFile((group / "cgroup.procs").string(), 16 << 20);
    if (!text.ok()) continue;  // a group that has just been removed
    for (absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
      pid_t pid = 0;
      // 0: a process of another pid namespace.
      if (absl::SimpleAtoi(line, &pid) && pid > 0) pids.insert(pid);
    }
  }
  return std::vector<pid_t>(pids.begin(), pids.end());
}

}  // namespace rocattach
