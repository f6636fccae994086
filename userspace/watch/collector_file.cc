#include "userspace/watch/collector_file.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "injector/collector_name.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr const char* kBases[] = {"/run", "/dev/shm", "/var/tmp", "/tmp"};
constexpr char kDirectoryPrefix[] = "/rocattach-collector-";
constexpr char kName[] = "/librocattach-collector.so";
constexpr off_t kMaxBytes = 64 << 20;
// MFD_EXEC of newer headers.
constexpr unsigned kMfdExec = 0x10;

// Removes the copy of a service that was killed: its lock is gone with it.
void RemoveLeftOver(const std::string& base) {
  glob_t found = {};
  const std::string pattern = absl::StrCat(base, kDirectoryPrefix, "*");
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) {
      const std::string directory = found.gl_pathv[i];
      struct stat info;
      if (lstat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) ||
          info.st_uid != geteuid()) {
        continue;
      }
      const std::string path = absl::StrCat(directory, kName);
      auto fd = OpenFile(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
      if (fd.ok() && flock(fd->get(), LOCK_EX | LOCK_NB) != 0) continue;
      // No file yet: another service may be creating it. The directory is young then.
      if (!fd.ok() && time(nullptr) - info.st_ctim.tv_sec < 60) continue;
      (void)unlink(path.c_str());
      (void)rmdir(directory.c_str());
    }
  }
  globfree(&found);
}

// With SELinux, the copy must have the original's label, that of a library.
void CopyLabel(int from, int to) {
  char label[256];
  const ssize_t bytes = fgetxattr(from, "security.selinux", label, sizeof(label));
  if (bytes > 0) {
    (void)fsetxattr(to, "security.selinux", label, static_cast<size_t>(bytes), 0);
  }
}

// False if only a part was written.
bool CopyContents(int from, int to) {
  char chunk[1 << 16];
  off_t at = 0;
  for (;;) {
    const ssize_t n = pread(from, chunk, sizeof(chunk), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n == 0;
    if (!WriteAll(to, absl::string_view(chunk, static_cast<size_t>(n))).ok())
      return false;
    at += n;
    if (at > kMaxBytes) return false;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<CollectorFile>> CollectorFile::Open(
    const std::string& path) {
  auto file = std::unique_ptr<CollectorFile>(new CollectorFile());
  ASSIGN_OR_RETURN(file->original_fd_, OpenFile(path, O_RDONLY | O_NONBLOCK));
  struct stat info;
  if (fstat(file->original_fd_.get(), &info) != 0) {
    return ErrnoStatus(errno, absl::StrCat("fstat(", path, ") failed"));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the collector ", path, " is not a regular file"));
  }
  file->original_ = {path, FileIdentity::Of(info)};
  for (const char* base : kBases) {
    RemoveLeftOver(base);
    if (!file->copy_fd_.valid()) (void)file->CopyTo(base);
  }
  file->CopyToMemory();
  return file;
}

int CollectorFile::sent_fd() const {
  if (memfd_.valid()) return memfd_.get();
  return copy_fd_.valid() ? copy_fd_.get() : original_fd_.get();
}

void CollectorFile::CopyToMemory() {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  UniqueFd made(memfd_create(ROCATTACH_COLLECTOR_NAME, kFlags | kMfdExec));
  // Linux before 6.3 does not know the flag, and makes all of them executable.
  if (!made.valid() && errno == EINVAL) {
    made.reset(memfd_create(ROCATTACH_COLLECTOR_NAME, kFlags));
  }
  if (!made.valid() || !CopyContents(original_fd_.get(), made.get())) return;
  CopyLabel(original_fd_.get(), made.get());
  if (fchmod(made.get(), 0555) != 0 ||
      fcntl(made.get(), F_ADD_SEALS,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) {
    return;
  }
  // Who receives it may only read.
  auto readable = OpenFile(absl::StrCat("/proc/self/fd/", made.get()), O_RDONLY);
  if (readable.ok()) memfd_ = *std::move(readable);
}

bool CollectorFile::CopyTo(const std::string& base) {
  struct statvfs file_system;
  if (statvfs(base.c_str(), &file_system) != 0 ||
      (file_system.f_flag & ST_NOEXEC) != 0) {
    return false;
  }
  std::string directory = absl::StrCat(base, kDirectoryPrefix, "XXXXXX");
  if (mkdtemp(directory.data()) == nullptr) return false;
  directory_ = directory;
  const std::string path = absl::StrCat(directory, kName);
  struct stat info;
  auto made = OpenFile(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  bool ok = made.ok() && flock(made->get(), LOCK_SH | LOCK_NB) == 0 &&
            CopyContents(original_fd_.get(), made->get());
  if (ok) CopyLabel(original_fd_.get(), made->get());
  ok = ok && fchmod(made->get(), 0555) == 0 && chmod(directory.c_str(), 0755) == 0;
  // Opened again for reading: a file that is open for writing cannot be executed, and
  // the lock must belong to the descriptor that is kept.
  auto fd = OpenFile(path, O_RDONLY | O_NOFOLLOW);
  ok = ok && fd.ok() && flock(fd->get(), LOCK_SH | LOCK_NB) == 0 &&
       fstat(fd->get(), &info) == 0;
  if (!ok) {
    (void)unlink(path.c_str());
    (void)rmdir(directory.c_str());
    directory_.clear();
    return false;
  }
  copy_ = {path, FileIdentity::Of(info)};
  copy_fd_ = *std::move(fd);
  return true;
}

CollectorFile::~CollectorFile() {
  if (directory_.empty()) return;
  (void)unlink(copy_.path.c_str());
  (void)rmdir(directory_.c_str());
}

}  // namespace rocattach
