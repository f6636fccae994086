#include "userspace/export/common/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr off_t kReservedBytes = 1 << 20;

absl::Status Exists(const std::string& path) {
  return absl::AlreadyExistsError(absl::StrCat(
      path, " exists; --force replaces it, -o and -d choose another name"));
}

}  // namespace

absl::StatusOr<std::string> PrepareOutput(const std::string& path,
                                          const ExportOptions& options) {
  struct stat info;
  if (lstat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) {
      return absl::AlreadyExistsError(absl::StrCat(path, " is a directory"));
    }
    if (!options.force) return Exists(path);
  }
  const std::string written =
      options.follow ? path : absl::StrCat(path, kPartialSuffix);
  if (unlink(written.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, absl::StrCat("cannot replace ", written));
  }
  return written;
}

absl::Status CompleteOutput(const std::string& written, const std::string& path,
                            bool force) {
  if (written == path) return absl::OkStatus();
  const unsigned flags = force ? 0 : RENAME_NOREPLACE;
  int result = renameat2(AT_FDCWD, written.c_str(), AT_FDCWD, path.c_str(), flags);
  // Not every file system knows the flag; the name was free when the file was begun.
  if (result != 0 && errno == EINVAL) result = rename(written.c_str(), path.c_str());
  if (result == 0) return absl::OkStatus();
  if (errno == EEXIST) return Exists(path);
  return ErrnoStatus(errno, absl::StrCat("cannot rename ", written, " to ", path));
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(
    std::string path, const ExportOptions& options) {
  ASSIGN_OR_RETURN(std::string name, PrepareOutput(path, options));
  ASSIGN_OR_RETURN(UniqueFd fd,
                   OpenFile(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0640));
  return std::unique_ptr<OutputFile>(
      new OutputFile(std::move(fd), std::move(name), std::move(path), options.force));
}

void OutputFile::Reserve() {
  reserved_ = fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, 0, kReservedBytes) == 0;
}

absl::Status OutputFile::Flush() {
  if (buffer_.empty()) return absl::OkStatus();
  absl::Status status = WriteAll(fd_.get(), buffer_);
  buffer_.clear();
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(name_, ": ", status.message()));
}

absl::Status OutputFile::Complete() {
  RETURN_IF_ERROR(Flush());
  if (reserved_) {
    // Frees the reserved space that was not needed.
    const off_t size = lseek(fd_.get(), 0, SEEK_CUR);
    if (size < 0 || ftruncate(fd_.get(), size) != 0) {
      return ErrnoStatus(errno, absl::StrCat("ftruncate(", name_, ") failed"));
    }
  }
  const int fd = fd_.release();
  if (close(fd) != 0) {
    return ErrnoStatus(errno, absl::StrCat("close(", name_, ") failed"));
  }
  RETURN_IF_ERROR(CompleteOutput(name_, path_, force_));
  name_ = path_;
  return absl::OkStatus();
}

}  // namespace rocattach
