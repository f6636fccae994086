#include "userspace/stream/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// A write past a size limit or into a closed pipe raises a signal in addition to its
// errno. Blocks these two signals during a write, and consumes those that the write
// caused; signals that were pending before are left alone.
class WriteSignalGuard {
 public:
  WriteSignalGuard() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGPIPE);
    sigaddset(&signals_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    had_any_ = sigismember(&pending, SIGPIPE) || sigismember(&pending, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~WriteSignalGuard() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WriteSignalGuard(const WriteSignalGuard&) = delete;
  WriteSignalGuard& operator=(const WriteSignalGuard&) = delete;

  void ConsumeSignals() const {
    if (had_any_) return;
    timespec now = {0, 0};
    while (sigtimedwait(&signals_, nullptr, &now) < 0 && errno == EINTR) {
    }
  }

 private:
  sigset_t signals_;
  sigset_t before_;
  bool had_any_;
};

class FdSink : public Sink {
 public:
  FdSink(UniqueFd fd, std::string name, uint32_t max_wait_msec)
      : fd_(std::move(fd)), name_(std::move(name)), max_wait_msec_(max_wait_msec) {
    struct stat info;
    regular_ = fstat(fd_.get(), &info) == 0 && S_ISREG(info.st_mode);
    piece_ = regular_ ? SIZE_MAX : PIPE_BUF;
    off_t position = regular_ ? lseek(fd_.get(), 0, SEEK_CUR) : -1;
    if (position >= 0) end_ = position;
  }

  absl::Status Write(absl::string_view frame) override {
    if (broken_ != 0) {
      return ErrnoStatus(broken_, absl::StrCat(name_, ": closed earlier"));
    }
    WriteSignalGuard guard;
    size_t done = 0;
    while (done < frame.size()) {
      // A descriptor that may block is written to only when there is room. It cannot be
      // made non-blocking, because other processes may share the open file, such as a
      // terminal.
      if (!regular_ && !WaitWritable()) return Fail(EAGAIN, frame.size(), done);
      ssize_t n =
          write(fd_.get(), frame.data() + done, std::min(frame.size() - done, piece_));
      if (n > 0) {
        done += static_cast<size_t>(n);
        continue;
      }
      int error = n < 0 ? errno : ENOSPC;
      if (error == EINTR) continue;
      if (error == EAGAIN && regular_ && WaitWritable()) continue;
      if (error == EAGAIN && !regular_) continue;
      if (error == EPIPE || error == EFBIG) guard.ConsumeSignals();
      return Fail(error, frame.size(), done);
    }
    end_ += static_cast<off_t>(frame.size());
    return absl::OkStatus();
  }

  bool broken() const override { return broken_ != 0; }
  bool compress_by_default() const override { return regular_; }
  const std::string& name() const override { return name_; }

 private:
  // Waits until there is room. After a timeout it does not wait again until there has
  // been room, so that a run with a thousand frames to write also ends in time.
  bool WaitWritable() {
    pollfd waiter = {fd_.get(), POLLOUT, 0};
    int ready;
    do {
      ready = poll(&waiter, 1, stalled_ ? 0 : static_cast<int>(max_wait_msec_));
    } while (ready < 0 && errno == EINTR);
    stalled_ = ready == 0;
    return ready != 0;
  }

  absl::Status Fail(int error, size_t bytes, size_t done) {
    if (error == EPIPE || error == ECONNRESET || error == EBADF) broken_ = error;
    // Removes the partial frame, so that the file ends with a whole frame. If even that
    // fails, readers find the next frame by its checksums.
    if (regular_ && done > 0 && ftruncate(fd_.get(), end_) == 0) {
      (void)lseek(fd_.get(), end_, SEEK_SET);
    }
    std::string message = absl::StrCat(name_, ": write of ", bytes, " bytes failed");
    if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
      absl::StrAppend(&message, "; free some space");
    }
    if (error == EAGAIN) {
      return absl::UnavailableError(absl::StrCat(message, ": the reader is too slow"));
    }
    return ErrnoStatus(error, message);
  }

  UniqueFd fd_;
  std::string name_;
  uint32_t max_wait_msec_;
  bool regular_ = false;
  int broken_ = 0;  // the errno after which no later write can succeed
  bool stalled_ = false;
  // Bytes per write. When poll() reports room, a pipe accepts this much without
  // blocking (pipe(7)).
  size_t piece_ = SIZE_MAX;
  off_t end_ = 0;  // offset after the last whole frame
};

}  // namespace

absl::StatusOr<std::unique_ptr<Sink>> OpenFileSink(const std::string& path,
                                                   ExistingFile existing) {
  int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NOCTTY;
  if (existing == ExistingFile::kRefuse) flags |= O_EXCL;
  absl::StatusOr<UniqueFd> fd = OpenFile(path, flags, 0640);
  if (!fd.ok()) return fd.status();
  struct stat info;
  if (fstat(fd->get(), &info) != 0) {
    return ErrnoStatus(errno, absl::StrCat("fstat(", path, ") failed"));
  }
  if (S_ISREG(info.st_mode)) {
    // Not O_TRUNC in open(): nothing is truncated before its type is known.
    if (existing == ExistingFile::kTruncate && ftruncate(fd->get(), 0) != 0) {
      return ErrnoStatus(errno, absl::StrCat("ftruncate(", path, ") failed"));
    }
    if (existing == ExistingFile::kAppend && lseek(fd->get(), 0, SEEK_END) < 0) {
      return ErrnoStatus(errno, absl::StrCat("lseek(", path, ") failed"));
    }
  } else if (!S_ISFIFO(info.st_mode) && !S_ISCHR(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is neither a file nor a pipe"));
  }
  if (S_ISREG(info.st_mode)) MarkAsWritten(fd->get());
  return MakeFdSink(*std::move(fd), path);
}

std::unique_ptr<Sink> MakeFdSink(UniqueFd fd, std::string name,
                                 uint32_t max_wait_msec) {
  return std::make_unique<FdSink>(std::move(fd), std::move(name), max_wait_msec);
}

absl::StatusOr<std::unique_ptr<Sink>> OpenStdoutSink() {
  UniqueFd fd(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!fd.valid()) {
    return ErrnoStatus(errno, "fcntl(stdout, F_DUPFD_CLOEXEC) failed");
  }
  return MakeFdSink(std::move(fd), "standard output");
}

absl::Status MemorySink::Write(absl::string_view frame) {
  out_->append(frame.data(), frame.size());
  return absl::OkStatus();
}

void MarkAsWritten(int fd) {
  (void)flock(fd, LOCK_SH | LOCK_NB);
}

bool IsBeingWritten(int fd) {
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) return true;
  (void)flock(fd, LOCK_UN);
  return false;
}

}  // namespace rocattach
