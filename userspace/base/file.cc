#include "userspace/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

}  // namespace

absl::StatusOr<UniqueFd> OpenFile(const std::string& path, int flags, mode_t mode) {
  int fd;
  do {
    fd = open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open(", path, ") failed"));
  return UniqueFd(fd);
}

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t limit) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_RDONLY | O_NONBLOCK));
  std::string data;
  char chunk[16384];
  for (;;) {
    ssize_t n = read(fd.get(), chunk, sizeof(chunk));
    if (n == 0) return data;
    if (n < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, absl::StrCat("read(", path, ") failed"));
    }
    if (data.size() + static_cast<size_t>(n) > limit) {
      return absl::OutOfRangeError(
          absl::StrCat(path, " is longer than ", limit, " bytes"));
    }
    data.append(chunk, static_cast<size_t>(n));
  }
}

absl::StatusOr<std::string> ReadLink(const std::string& path) {
  char target[PATH_MAX];
  ssize_t n = readlink(path.c_str(), target, sizeof(target));
  if (n < 0) {
    return ErrnoStatus(errno, absl::StrCat("readlink(", path, ") failed"));
  }
  return std::string(target, static_cast<size_t>(n));
}

absl::Status MakeDirectories(const std::string& path, mode_t mode) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    std::string prefix = path.substr(0, end);
    if (!prefix.empty() && mkdir(prefix.c_str(), mode) != 0 && errno != EEXIST) {
      return ErrnoStatus(errno, absl::StrCat("mkdir(", prefix, ") failed"));
    }
    if (end == std::string::npos) break;
  }
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return ErrnoStatus(errno, absl::StrCat("stat(", path, ") failed"));
  }
  if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a directory"));
  }
  return absl::OkStatus();
}

absl::Status WriteAll(int fd, absl::string_view data) {
  while (!data.empty()) {
    ssize_t n = write(fd, data.data(), data.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(
          errno, absl::StrCat("write(fd=", fd, ", ", data.size(), " bytes) failed"));
    }
    data.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::StatusOr<FolderListing> ListFolder(const std::string& path, size_t most) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return ListFolder(std::move(fd), path, most);
}

absl::StatusOr<FolderListing> ListFolder(UniqueFd folder, const std::string& path,
                                         size_t most) {
  const std::unique_ptr<DIR, CloseFolder> entries(fdopendir(folder.get()));
  if (entries == nullptr) {
    return ErrnoStatus(errno, absl::StrCat("fdopendir(", path, ") failed"));
  }
  (void)folder.release();
  FolderListing found;
  for (;;) {
    errno = 0;
    const dirent* entry = readdir(entries.get());
    if (entry == nullptr) break;
    const absl::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (found.names.size() == most) {
      found.cut = true;
      return found;
    }
    found.names.emplace_back(name);
  }
  if (errno != 0) {
    return ErrnoStatus(errno, absl::StrCat("readdir(", path, ") failed"));
  }
  return found;
}

}  // namespace rocattach
