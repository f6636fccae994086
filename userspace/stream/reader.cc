#include "userspace/stream/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"
#include "userspace/stream/frame.h"

namespace rocattach {
namespace {

constexpr int kFollowPollMsec = 50;

bool Stopped(const ReadOptions& options) {
  return options.stop && options.stop();
}

// Waits at the end of a followed file. Returns false if there will be no more data.
absl::StatusOr<bool> WaitForMore(int fd, const std::string& name, uint64_t read_bytes,
                                 const ReadOptions& options,
                                 const StreamDecoder& decoder) {
  if (!options.follow || decoder.recording_ended() || Stopped(options)) return false;
  struct stat info;
  if (fstat(fd, &info) != 0) {
    return ErrnoStatus(errno, absl::StrCat("fstat(", name, ") failed"));
  }
  if (!S_ISREG(info.st_mode)) return false;  // the end of a pipe is final
  if (static_cast<uint64_t>(info.st_size) < read_bytes) {
    return absl::DataLossError(absl::StrCat(name, " shrank from ", read_bytes, " to ",
                                            info.st_size,
                                            " bytes while it was followed"));
  }
  poll(nullptr, 0, kFollowPollMsec);
  return true;
}

// Sets *begins to true if the first bytes are those of a frame.
absl::Status ReadAll(int fd, const std::string& name, const ReadOptions& options,
                     StreamDecoder* decoder, bool* begins) {
  std::unique_ptr<char[]> buffer(new char[options.read_bytes]);
  uint64_t total = 0;
  while (!Stopped(options)) {
    ssize_t n = read(fd, buffer.get(), options.read_bytes);
    if (n > 0) {
      if (total == 0) {
        *begins = n >= static_cast<ssize_t>(sizeof(kFrameMagic)) &&
                  memcmp(buffer.get(), kFrameMagic, sizeof(kFrameMagic)) == 0;
      }
      total += static_cast<uint64_t>(n);
      decoder->Feed(absl::string_view(buffer.get(), static_cast<size_t>(n)));
      continue;
    }
    if (n < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, absl::StrCat("read(", name, ") failed"));
    }
    ASSIGN_OR_RETURN(bool more, WaitForMore(fd, name, total, options, *decoder));
    if (!more) break;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadStreamFd(int fd, const std::string& name, const ReadOptions& options,
                          StreamDecoder* decoder) {
  uint64_t frames_before = decoder->stats().frames;
  uint64_t bytes_before = decoder->stats().bytes;
  const uint64_t unknown_before = decoder->stats().unknown_frames;
  bool begins = false;
  absl::Status status = ReadAll(fd, name, options, decoder, &begins);
  if (Stopped(options)) {
    decoder->AbandonInput();
  } else {
    decoder->FinishInput();
  }
  RETURN_IF_ERROR(status);
  if (decoder->stats().frames == frames_before && !Stopped(options)) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, decoder->stats().bytes == bytes_before ? " is empty"
              : decoder->stats().unknown_frames > unknown_before
                  ? " was recorded by a newer version of this program, and has nothing "
                    "that this one can read"
              : begins ? " is damaged or cut off inside its first frame, and holds no "
                         "intact one"
                       : " holds no intact frame: it is not a rocattach stream"));
  }
  return absl::OkStatus();
}

absl::Status ReadStream(const std::string& path, const ReadOptions& options,
                        StreamDecoder* decoder) {
  if (path == "-") {
    return ReadStreamFd(STDIN_FILENO, "standard input", options, decoder);
  }
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_RDONLY | O_NOCTTY));
  struct stat info;
  if (fstat(fd.get(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is a directory"));
  }
  return ReadStreamFd(fd.get(), path, options, decoder);
}

}  // namespace rocattach
