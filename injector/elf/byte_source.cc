#include "injector/elf/byte_source.h"

#include <errno.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_format.h"
#include "userspace/base/errno_status.h"

namespace rocattach {

absl::Status FileSource::ReadAt(uint64_t position, void* buffer, size_t bytes) const {
  if (position > INT64_MAX - bytes) {
    return absl::OutOfRangeError(absl::StrFormat("offset %#x", position));
  }
  char* out = static_cast<char*>(buffer);
  for (size_t done = 0; done < bytes;) {
    ssize_t n =
        pread(fd_, out + done, bytes - done, static_cast<off_t>(position + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return ErrnoStatus(
          errno, absl::StrFormat("pread(%d bytes at %#x) failed", bytes, position));
    }
    if (n == 0) {
      return absl::OutOfRangeError(
          absl::StrFormat("the file ends before %d bytes at %#x", bytes, position));
    }
    done += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status BufferSource::ReadAt(uint64_t position, void* buffer, size_t bytes) const {
  if (position > bytes_.size() || bytes > bytes_.size() - position) {
    return absl::OutOfRangeError(
        absl::StrFormat("the buffer ends before %d bytes at %#x", bytes, position));
  }
  std::memcpy(buffer, bytes_.data() + position, bytes);
  return absl::OkStatus();
}

absl::Status MemorySource::ReadAt(uint64_t position, void* buffer, size_t bytes) const {
  return memory_->Read(bias_ + position, buffer, bytes);
}

}  // namespace rocattach
