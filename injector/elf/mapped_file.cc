#include "injector/elf/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

std::string MapFilesPath(pid_t pid, const Mapping& mapping) {
  return absl::StrFormat("/proc/%d/map_files/%x-%x", pid, mapping.start.value(),
                         mapping.end.value());
}

absl::StatusOr<UniqueFd> OpenByPath(pid_t pid, const Mapping& mapping) {
  if (mapping.deleted || !mapping.is_file()) {
    return absl::NotFoundError(
        absl::StrCat(absl::string_view(mapping.path),
                     " is deleted or has no path; /proc/PID/map_files reaches it with"
                     " CAP_CHECKPOINT_RESTORE"));
  }
  ASSIGN_OR_RETURN(UniqueFd root, OpenRootOf(pid));
  ASSIGN_OR_RETURN(UniqueFd fd, OpenInRoot(root.get(), DecodeMapsPath(mapping.path),
                                           O_RDONLY | O_NONBLOCK | O_NOCTTY));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) {
    return ErrnoStatus(errno, absl::StrCat("fstat(", mapping.path, ") failed"));
  }
  if (info.st_ino != mapping.inode || major(info.st_dev) != mapping.device_major ||
      minor(info.st_dev) != mapping.device_minor) {
    return absl::FailedPreconditionError(
        absl::StrCat(mapping.path, " is not the file that process ", pid,
                     " has mapped (replaced, or on an overlay file system)"));
  }
  return fd;
}

}  // namespace

absl::StatusOr<UniqueFd> OpenRootOf(pid_t pid) {
  return OpenFile(absl::StrCat("/proc/", pid, "/root"), O_PATH | O_DIRECTORY);
}

absl::StatusOr<UniqueFd> OpenInRoot(int root, const std::string& path, int flags) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  long fd;
  do {
    fd = syscall(SYS_openat2, root, path.c_str(), &how, sizeof(how));
    // EAGAIN: a rename elsewhere raced with the walk; the kernel asks for a retry.
  } while (fd < 0 && (errno == EINTR || errno == EAGAIN));
  if (fd < 0) {
    return ErrnoStatus(errno, absl::StrCat("openat2(root=", root, ", ", path,
                                           ", RESOLVE_IN_ROOT) failed"));
  }
  return UniqueFd(static_cast<int>(fd));
}

absl::StatusOr<UniqueFd> OpenRegularInRoot(int root, const std::string& path) {
  ASSIGN_OR_RETURN(const UniqueFd found, OpenInRoot(root, path, O_PATH));
  struct stat info;
  if (fstat(found.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  }
  return OpenFile(absl::StrCat("/proc/self/fd/", found.get()), O_RDONLY | O_NONBLOCK);
}

absl::StatusOr<UniqueFd> OpenMappedFile(pid_t pid, const Mapping& mapping) {
  UniqueFd fd;
  if (auto opened = OpenFile(MapFilesPath(pid, mapping), O_RDONLY | O_NONBLOCK);
      opened.ok()) {
    fd = *std::move(opened);
  } else {
    ASSIGN_OR_RETURN(fd, OpenByPath(pid, mapping));
  }
  struct stat info;
  if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(mapping.path, " is not a regular file"));
  }
  return fd;
}

absl::Status StatMappedFile(pid_t pid, const Mapping& mapping, struct stat* info) {
  if (stat(MapFilesPath(pid, mapping).c_str(), info) == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(UniqueFd fd, OpenByPath(pid, mapping));
  if (fstat(fd.get(), info) != 0) {
    return ErrnoStatus(errno, absl::StrCat("fstat(", mapping.path, ") failed"));
  }
  return absl::OkStatus();
}

}  // namespace rocattach
