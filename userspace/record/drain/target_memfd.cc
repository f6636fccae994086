#include "userspace/record/drain/target_memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// These fix the size forever, so that no access can be past the end.
constexpr int kNeededSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Reads device, type and size without a request to the file system: one in user space
// could delay its answer.
absl::Status CachedStat(int fd, struct statx* info) {
  if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_SIZE,
            info) != 0) {
    return ErrnoStatus(errno, "statx(collector's memory) failed");
  }
  return absl::OkStatus();
}

absl::Status CheckSize(const struct statx& info, uint64_t bytes) {
  if (info.stx_size == bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the collector's memory has ", info.stx_size,
                   " bytes where the configuration requires ", bytes));
}

// All memfds without huge pages, and nothing that a user can mount, are on one device.
absl::StatusOr<dev_t> MemfdDevice() {
  UniqueFd fd(memfd_create("rocattach-device", MFD_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "memfd_create() failed");
  struct stat info;
  if (fstat(fd.get(), &info) != 0) {
    return ErrnoStatus(errno, "fstat(memfd) failed");
  }
  return info.st_dev;
}

// Waits for a hole that is being punched into the file.
absl::Status SetImmutable(int fd, bool immutable) {
  unsigned flags = 0;
  if (ioctl(fd, FS_IOC_GETFLAGS, &flags) != 0) {
    return ErrnoStatus(errno, "ioctl(FS_IOC_GETFLAGS, collector's memory) failed");
  }
  flags = immutable ? flags | FS_IMMUTABLE_FL : flags & ~unsigned{FS_IMMUTABLE_FL};
  if (ioctl(fd, FS_IOC_SETFLAGS, &flags) != 0) {
    return ErrnoStatus(errno, "ioctl(FS_IOC_SETFLAGS, collector's memory) failed");
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> OpenWritable(const std::string& path) {
  // Its owner may hold a lease on it, which open() would wait for without O_NONBLOCK.
  absl::StatusOr<UniqueFd> fd = OpenFile(path, O_RDWR | O_NONBLOCK);
  if (fd.ok() || ErrnoOf(fd.status()) != EPERM) return fd;
  // An earlier service has made it immutable.
  ASSIGN_OR_RETURN(const UniqueFd readable, OpenFile(path, O_RDONLY | O_NONBLOCK));
  RETURN_IF_ERROR(SetImmutable(readable.get(), false));
  return OpenFile(path, O_RDWR | O_NONBLOCK);
}

// While a hole is being punched into a file, page faults in it wait for as long as the
// punching process likes. So would the recorder, with all other targets, and it would
// hold the lock of the service's mappings. Nobody can punch into an immutable file, and
// only root changes that; what is open or mapped already remains usable.
//
// 1. The flag is checked before the file's lock is taken. So a second request for the
//    lock lets processes punch first that have the lock or wait for it.
// 2. Without CAP_LINUX_IMMUTABLE and CAP_FOWNER, and where the kernel has no such flag
//    for memfds, the file stays as it is.
void KeepWhole(int fd) {
  if (SetImmutable(fd, true).ok()) (void)lseek(fd, 0, SEEK_DATA);
}

}  // namespace

absl::Status CheckTargetMemfd(int fd, uint64_t bytes) {
  struct statx info = {};
  RETURN_IF_ERROR(CachedStat(fd, &info));
  ASSIGN_OR_RETURN(const dev_t memfds, MemfdDevice());
  if (!S_ISREG(info.stx_mode) || info.stx_dev_major != major(memfds) ||
      info.stx_dev_minor != minor(memfds)) {
    return absl::PermissionDeniedError(
        "what it reports as the collector's memory is not a memfd of ordinary pages");
  }
  struct statfs system;
  if (fstatfs(fd, &system) != 0) {
    return ErrnoStatus(errno, "fstatfs(collector's memory) failed");
  }
  if (system.f_type != TMPFS_MAGIC) {
    return absl::PermissionDeniedError(
        absl::StrFormat("the collector's memory is on a file system of type 0x%x",
                        static_cast<uint64_t>(system.f_type)));
  }
  return CheckSize(info, bytes);
}

// Checks the size once more:
// 1. The target can change the size of a file that is not sealed yet right after it has
//    been checked, and then seal it.
// 2. The seals, which nobody can remove, fix the size. So a size that is found after
//    them is true for good.
absl::Status CheckSealed(int fd, uint64_t bytes) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return ErrnoStatus(errno, "fcntl(F_GET_SEALS) failed");
  if ((seals & kNeededSeals) != kNeededSeals) {
    return absl::PermissionDeniedError(
        absl::StrFormat("the collector's memory is not sealed (seals 0x%x)", seals));
  }
  struct statx info = {};
  RETURN_IF_ERROR(CachedStat(fd, &info));
  return CheckSize(info, bytes);
}

absl::StatusOr<UniqueFd> OpenTargetMemfd(pid_t pid, uint64_t address, uint64_t bytes) {
  const uint64_t end = (address + bytes + 4095) & ~uint64_t{4095};
  const std::string path =
      absl::StrFormat("/proc/%d/map_files/%x-%x", pid, address, end);
  // O_PATH does not access the file yet.
  ASSIGN_OR_RETURN(UniqueFd found, OpenFile(path, O_PATH));
  RETURN_IF_ERROR(CheckTargetMemfd(found.get(), bytes));
  // Opens exactly the file that was checked.
  ASSIGN_OR_RETURN(UniqueFd fd,
                   OpenWritable(absl::StrCat("/proc/self/fd/", found.get())));
  RETURN_IF_ERROR(CheckSealed(fd.get(), bytes));
  KeepWhole(fd.get());
  return fd;
}

}  // namespace rocattach
