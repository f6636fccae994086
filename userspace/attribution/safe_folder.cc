#include "userspace/attribution/safe_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// A FIFO or a device must not block the reader.
constexpr int kReadFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

absl::StatusOr<UniqueFd> OpenAt(int folder, const std::string& name,
                                const std::string& path, int flags) {
  UniqueFd fd(openat(folder, name.c_str(), flags));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open(", path, ") failed"));
  return fd;
}

}  // namespace

absl::StatusOr<SafeFolder> SafeFolder::Open(const std::string& path) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, kReadFlags | O_DIRECTORY));
  return SafeFolder(path, std::move(fd));
}

absl::StatusOr<SafeFolder> SafeFolder::OpenFolder(const std::string& name) const {
  const std::string path = absl::StrCat(path_, "/", name);
  ASSIGN_OR_RETURN(UniqueFd fd,
                   OpenAt(fd_.get(), name, path, kReadFlags | O_DIRECTORY));
  return SafeFolder(path, std::move(fd));
}

absl::StatusOr<FolderListing> SafeFolder::List(size_t most) const {
  // A descriptor of its own, because reading the folder moves its position.
  ASSIGN_OR_RETURN(UniqueFd fd,
                   OpenAt(fd_.get(), ".", path_, kReadFlags | O_DIRECTORY));
  return ListFolder(std::move(fd), path_, most);
}

absl::StatusOr<std::string> SafeFolder::ReadTrusted(const std::string& name,
                                                    size_t limit) const {
  const std::string path = absl::StrCat(path_, "/", name);
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenAt(fd_.get(), name, path, kReadFlags));
  struct stat file = {};
  if (fstat(fd.get(), &file) != 0) {
    return ErrnoStatus(errno, absl::StrCat("fstat(", path, ") failed"));
  }
  if (!S_ISREG(file.st_mode)) {
    return absl::PermissionDeniedError(absl::StrCat(path, " is not a regular file"));
  }
  const bool is_ours = file.st_uid == 0 || file.st_uid == geteuid();
  const bool others_write = (file.st_mode & S_IWOTH) != 0 ||
                            ((file.st_mode & S_IWGRP) != 0 && file.st_gid != 0);
  if (!is_ours || others_write) {
    return absl::PermissionDeniedError(absl::StrCat(
        path, " is not believed: it belongs to user ", file.st_uid,
        ", or others can write it; it must be root's, and writable by root only"));
  }
  std::string data(limit + 1, '\0');
  size_t size = 0;
  while (size < data.size()) {
    const ssize_t n = read(fd.get(), data.data() + size, data.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, absl::StrCat("read(", path, ") failed"));
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  if (size > limit) {
    return absl::OutOfRangeError(
        absl::StrCat(path, " is longer than ", limit, " bytes"));
  }
  data.resize(size);
  return data;
}

}  // namespace rocattach
