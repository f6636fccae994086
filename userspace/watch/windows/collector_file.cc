#include "userspace/watch/windows/collector_file.h"

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

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "injector/process/mapped_collector.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"
#include "userspace/base/version.h"

namespace rocattach {
namespace {

constexpr const char* kBases[] = {"/run", "/dev/shm", "/var/tmp", "/tmp"};
constexpr char kDirectoryPrefix[] = "/rocattach-collector-";
constexpr char kName[] = "/librocattach-collector.so";
constexpr off_t kMaxBytes = 64 << 20;
// MFD_EXEC in newer headers.
constexpr unsigned kMfdExec = 0x10;

// Removes the copy of a service that was killed, which no longer holds its lock.
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
      // A young directory without a file: another service may be creating the file.
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

bool OthersMayWrite(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return true;
  // In a sticky directory such as /tmp, any user can add files.
  return (info.st_uid != 0 && info.st_uid != geteuid()) ||
         ((info.st_mode & S_IWGRP) != 0 && info.st_gid != 0) ||
         (info.st_mode & S_IWOTH) != 0;
}

// True if others may change the file itself, or its entry in the directory.
bool OthersMayReplace(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  if (real == nullptr) return true;
  const std::string file = real;
  free(real);
  return OthersMayWrite(file) ||
         OthersMayWrite(file.substr(0, std::max<size_t>(file.rfind('/'), 1)));
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
  // Linux before 6.3 does not know the flag, and makes all memfds executable.
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
  // The receiver may only read it.
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

absl::StatusOr<std::string> FindCollector(const std::string& given) {
  std::vector<std::string> candidates;
  std::string untrusted;
  if (!given.empty()) {
    candidates.push_back(given);
  } else {
    if (auto program = ReadLink("/proc/self/exe"); program.ok()) {
      std::string directory = program->substr(0, program->rfind('/'));
      candidates = {absl::StrCat(directory, "/", ROCATTACH_COLLECTOR_NAME),
                    absl::StrCat(directory, "/../collector/", ROCATTACH_COLLECTOR_NAME),
                    absl::StrCat(directory, "/", ROCATTACH_LIBDIR_FROM_BINDIR,
                                 "/rocattach/", ROCATTACH_COLLECTOR_NAME)};
    }
    candidates.push_back(absl::StrCat(ROCATTACH_INSTALL_LIBDIR, "/rocattach/",
                                      ROCATTACH_COLLECTOR_NAME));
  }
  for (const std::string& candidate : candidates) {
    if (char* real = realpath(candidate.c_str(), nullptr); real != nullptr) {
      std::string path = real;
      free(real);
      if (access(path.c_str(), R_OK) != 0) continue;
      // A default location must not be one where another user can put a library that we
      // would load into every process.
      if (given.empty() && OthersMayReplace(path) &&
          !OthersMayReplace("/proc/self/exe")) {
        untrusted = path;
        continue;
      }
      return path;
    }
  }
  if (!untrusted.empty()) {
    return absl::PermissionDeniedError(
        absl::StrCat("the collector ", untrusted,
                     " can be changed by other users than this program can; name it "
                     "with --collector FILE to use it all the same"));
  }
  return absl::NotFoundError(
      absl::StrCat("the collector ", candidates[0],
                   " cannot be read; name it with --collector FILE"));
}

}  // namespace rocattach
