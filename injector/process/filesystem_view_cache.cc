#include "injector/process/filesystem_view_cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "injector/elf/mapped_file.h"
#include "injector/process/target_checks.h"
#include "injector/process/thread_status.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

// A user who owns nothing, is in no group and has no capabilities.
ThreadStatus Nobody() {
  ThreadStatus nobody;
  nobody.file_uid = UINT32_MAX;
  nobody.file_gid = UINT32_MAX;
  return nobody;
}

// True if only root can put another file there: root owns each directory of the path,
// and others cannot write to it, or only without replacing root's entries (sticky).
bool IsSettled(pid_t pid, const std::string& path) {
  auto root = OpenRootOf(pid);
  if (!root.ok()) return false;
  for (size_t slash = 0; slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    auto directory = OpenInRoot(root->get(), path.substr(0, std::max<size_t>(slash, 1)),
                                O_PATH | O_DIRECTORY);
    struct stat info;
    if (!directory.ok() || fstat(directory->get(), &info) != 0) return false;
    const bool others_write = (info.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    if (info.st_uid != 0 || (others_write && (info.st_mode & S_ISVTX) == 0))
      return false;
  }
  return true;
}

}  // namespace

bool FilesystemViewCache::EverybodyMayLoad(pid_t pid, uint64_t view_id,
                                           const std::string& path,
                                           const FileIdentity& file) {
  const uint64_t now_ns = BootNs();
  {
    absl::MutexLock lock(&mutex_);
    auto found = answers_.find(view_id);
    if (found != answers_.end() && found->second.path == path &&
        now_ns < found->second.time_ns + kLifeNs) {
      return found->second.everybody;
    }
  }
  const bool everybody =
      CheckCollector(pid, Nobody(), path, file).ok() && IsSettled(pid, path);
  absl::MutexLock lock(&mutex_);
  if (answers_.size() >= kMaxViews) answers_.clear();
  answers_[view_id] = {now_ns, path, everybody};
  return everybody;
}

}  // namespace rocattach
