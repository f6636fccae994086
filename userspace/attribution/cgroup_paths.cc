#include "userspace/attribution/cgroup_paths.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr const char* kRoots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
// The type of a file handle that contains the ID of a kernfs node (FILEID_KERNFS in the
// kernel's exportfs.h, which is not part of its UAPI).
constexpr int kKernfsHandle = 0xfe;

std::string FindRoot() {
  for (const char* root : kRoots) {
    struct statfs system = {};
    if (statfs(root, &system) == 0 && system.f_type == CGROUP2_SUPER_MAGIC) return root;
  }
  return kRoots[0];
}

}  // namespace

CgroupPaths::CgroupPaths() : CgroupPaths(FindRoot()) {}

CgroupPaths::CgroupPaths(std::string root) : root_(std::move(root)) {
  auto fd = OpenFile(root_, O_RDONLY | O_DIRECTORY);
  struct statfs system = {};
  if (fd.ok() && fstatfs(fd->get(), &system) == 0 &&
      system.f_type == CGROUP2_SUPER_MAGIC) {
    fd_ = *std::move(fd);
  }
}

absl::StatusOr<std::string> CgroupPaths::Ask(uint64_t id) const {
  if (!fd_.valid()) {
    return absl::NotFoundError(
        absl::StrCat(root_, " is no unified hierarchy of control groups"));
  }
  alignas(file_handle) char memory[sizeof(file_handle) + sizeof(id)] = {};
  auto* handle = reinterpret_cast<file_handle*>(memory);
  handle->handle_bytes = sizeof(id);
  handle->handle_type = kKernfsHandle;
  memcpy(handle->f_handle, &id, sizeof(id));
  const UniqueFd group(
      open_by_handle_at(fd_.get(), handle, O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!group.valid()) {
    const int error = errno;
    const std::string message =
        absl::StrCat("open_by_handle_at(", root_, ", control group ", id, ") failed");
    // The kernel's error for an ID that it does not know.
    if (error == ESTALE) return absl::NotFoundError(message);
    return ErrnoStatus(error, message);
  }
  ASSIGN_OR_RETURN(const std::string target,
                   ReadLink(absl::StrCat("/proc/self/fd/", group.get())));
  absl::string_view path = target;
  // Prefix of paths outside of the part of the hierarchy that is mounted here.
  absl::ConsumePrefix(&path, "(unreachable)");
  absl::ConsumeSuffix(&path, " (deleted)");
  absl::ConsumePrefix(&path, root_);
  if (path.empty()) path = "/";
  return std::string(path);
}

void CgroupPaths::Keep(uint64_t id, std::string path) {
  order_.push_front(id);
  paths_[id] = {std::move(path), order_.begin()};
  if (paths_.size() <= kMost) return;
  paths_.erase(order_.back());
  order_.pop_back();
}

absl::StatusOr<std::string> CgroupPaths::Find(uint64_t id) {
  if (id == 0) return absl::NotFoundError("no control group is known");
  if (const auto known = paths_.find(id); known != paths_.end()) {
    order_.splice(order_.begin(), order_, known->second.place);
    return known->second.path;
  }
  ASSIGN_OR_RETURN(std::string path, Ask(id));
  Keep(id, path);
  return path;
}

void CgroupPaths::AddIfCurrent(uint64_t id, absl::string_view path) {
  if (id == 0 || paths_.count(id) > 0) return;
  // The ID of a group is the inode number of its directory.
  struct stat group = {};
  if (stat(absl::StrCat(root_, path).c_str(), &group) != 0 || group.st_ino != id) {
    return;
  }
  Keep(id, std::string(path));
}

}  // namespace rocattach
