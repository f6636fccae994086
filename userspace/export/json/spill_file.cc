#include "userspace/export/json/spill_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr size_t kBufferBytes = 64 << 10;
constexpr size_t kReleaseBytes = 512 << 10;

absl::StatusOr<UniqueFd> OpenNameless(const std::string& directory) {
  UniqueFd fd(open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd.valid()) return fd;
  // Not every file system supports files without names.
  std::string path = absl::StrCat(directory, "/.rocattach-XXXXXX");
  fd.reset(mkostemp(path.data(), O_CLOEXEC));
  if (!fd.valid()) {
    return ErrnoStatus(errno, absl::StrCat("no temporary file in ", directory));
  }
  unlink(path.c_str());
  return fd;
}

}  // namespace

absl::Status SpillFile::WriteIfFull() {
  if (buffer_.size() < kBufferBytes) return absl::OkStatus();
  if (!fd_.valid()) {
    ASSIGN_OR_RETURN(fd_, OpenNameless(directory_));
  }
  RETURN_IF_ERROR(WriteAll(fd_.get(), buffer_));
  written_ += buffer_.size();
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status SpillFile::MoveTo(OutputFile* out) {
  if (written_ > 0) {
    const std::unique_ptr<char[]> piece(new char[kBufferBytes]);
    size_t released = 0;
    for (size_t at = 0; at < written_;) {
      const ssize_t n =
          pread(fd_.get(), piece.get(), kBufferBytes, static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        return ErrnoStatus(n < 0 ? errno : EIO,
                           absl::StrCat("a temporary file in ", directory_));
      }
      RETURN_IF_ERROR(
          out->Append(absl::string_view(piece.get(), static_cast<size_t>(n))));
      at += static_cast<size_t>(n);
      // Free what was copied: both together take little more room than one of them.
      if (at - released >= kReleaseBytes) {
        (void)fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        static_cast<off_t>(released),
                        static_cast<off_t>(at - released));
        released = at;
      }
    }
    fd_.reset();
    written_ = 0;
  }
  RETURN_IF_ERROR(out->Append(buffer_));
  buffer_ = std::string();
  return absl::OkStatus();
}

}  // namespace rocattach
