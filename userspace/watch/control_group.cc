#include "userspace/watch/control_group.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxCgroupText = 64 << 10;
// Mount points of the unified hierarchy: alone, or beside the older ones.
constexpr const char* kUnified[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
constexpr char kSystemd[] = "/sys/fs/cgroup/systemd";

bool IsGroup(const fs::path& directory) {
  std::error_code error;
  return fs::exists(directory / "cgroup.procs", error);
}

bool IsUnified(const std::string& directory) {
  struct statfs system = {};
  return statfs(directory.c_str(), &system) == 0 &&
         system.f_type == CGROUP2_SUPER_MAGIC;
}

}  // namespace

absl::StatusOr<std::string> FindControlGroup(const std::string& path) {
  if (IsGroup(path)) return path;
  for (const char* root : {kUnified[0], kUnified[1], kSystemd}) {
    const std::string directory = absl::StrCat(root, "/", path);
    if (IsGroup(directory)) return directory;
  }
  return absl::NotFoundError(absl::StrCat("there is no control group ", path,
                                          ", neither as a directory nor below ",
                                          kUnified[0]));
}

bool IsWithinControlGroup(const std::string& group, const std::string& ancestor) {
  if (ancestor == "/") return absl::StartsWith(group, "/");
  return group == ancestor || absl::StartsWith(group, ancestor + "/");
}

absl::StatusOr<ControlGroup> ControlGroup::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string found, FindControlGroup(path));
  std::error_code error;
  const std::string directory = fs::canonical(found, error).string();
  struct stat file = {};
  if (error || stat(directory.c_str(), &file) != 0) {
    return absl::NotFoundError(
        absl::StrCat("cannot inspect the control group ", found, ": ",
                     error ? error.message() : std::system_category().message(errno)));
  }
  for (const char* root : kUnified) {
    if (!IsUnified(root) || !IsWithinControlGroup(directory, root)) continue;
    const std::string within = directory.substr(std::string(root).size());
    // The kernel's ID of a group is the inode of its directory (kernfs, 64 bits).
    return ControlGroup(file.st_ino, within.empty() ? "/" : within);
  }
  return absl::FailedPreconditionError(absl::StrCat(
      directory, " is not a group of the unified hierarchy (cgroup v2), mounted at ",
      kUnified[0], " or ", kUnified[1]));
}

bool ControlGroup::Contains(pid_t pid) const {
  auto groups = ReadFile(absl::StrCat("/proc/", pid, "/cgroup"), kMaxCgroupText);
  if (!groups.ok()) return false;
  for (absl::string_view line : absl::StrSplit(*groups, '\n')) {
    if (absl::ConsumePrefix(&line, "0::")) {
      return IsWithinControlGroup(std::string(line), path_);
    }
  }
  return false;
}

}  // namespace rocattach
