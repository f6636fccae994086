#include "userspace/watch/discovery/checked_file.h"

#include <errno.h>
#include <fcntl.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

bool SameTime(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

absl::StatusOr<CheckedFile> CheckedFile::Open(const std::string& path) {
  // Opening a device may have side effects, and a link to one can have any name: the
  // type is checked before anything is opened for reading.
  ASSIGN_OR_RETURN(UniqueFd found, OpenFile(path, O_PATH));
  CheckedFile file;
  if (fstat(found.get(), &file.info_) != 0) {
    return ErrnoStatus(errno, absl::StrCat("fstat(", path, ") failed"));
  }
  if (!S_ISREG(file.info_.st_mode)) {
    return absl::InvalidArgumentError("is not a regular file");
  }
  auto fd =
      OpenFile(absl::StrCat("/proc/self/fd/", found.get()), O_RDONLY | O_NONBLOCK);
  if (!fd.ok()) {
    // Another process's lease, or a mount that root may not read either.
    return absl::Status(fd.status().code(), "cannot be opened for reading at once");
  }
  file.fd_ = std::make_shared<UniqueFd>(*std::move(fd));
  return file;
}

std::string CheckedFile::ProbePath() const {
  return absl::StrCat("/proc/self/fd/", fd());
}

absl::Status CheckedFile::CheckUnchanged() const {
  struct stat now;
  if (fstat(fd(), &now) != 0) return ErrnoStatus(errno, "fstat() failed");
  // The kernel sets the change time itself: it cannot be set back.
  if (now.st_size != info_.st_size || !SameTime(now.st_mtim, info_.st_mtim) ||
      !SameTime(now.st_ctim, info_.st_ctim)) {
    return absl::FailedPreconditionError(
        "the file was changed while its probe was put in place");
  }
  return absl::OkStatus();
}

std::string CheckedFile::Writers() const {
  std::vector<std::string> writers;
  // Owners can give themselves the permission.
  if (info_.st_uid != 0) writers.push_back(absl::StrCat("user ", info_.st_uid));
  if ((info_.st_mode & S_IWGRP) != 0 && info_.st_gid != 0) {
    writers.push_back(absl::StrCat("group ", info_.st_gid));
  }
  if ((info_.st_mode & S_IWOTH) != 0) writers.push_back("everybody");
  return absl::StrJoin(writers, ", ");
}

}  // namespace rocattach
