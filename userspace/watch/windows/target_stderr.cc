#include "userspace/watch/windows/target_stderr.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {
namespace {

constexpr size_t kMaxDescription = 4 << 10;
constexpr size_t kMaxMounts = 4 << 20;
// Documentation/admin-guide/devices.txt: consoles are the first 64 minors of 4.
constexpr unsigned kConsoleMajor = 4, kConsoles = 64;
constexpr unsigned kFirstPtyMajor = 136, kLastPtyMajor = 143;

// File systems that answer at once. Network and user-space ones may never answer.
constexpr std::array<absl::string_view, 11> kLocalFileSystems = {
    "ext2", "ext3",     "ext4",  "xfs",    "btrfs",   "f2fs",
    "zfs",  "bcachefs", "tmpfs", "devpts", "devtmpfs"};

// Facts about a descriptor from /proc/PID/fdinfo/N, all of the same instant.
struct Descriptor {
  uint64_t flags = 0;  // as in open(2)
  uint64_t mount = 0;
  uint64_t inode = 0;
};

absl::StatusOr<Descriptor> ReadDescriptor(const std::string& process, int fd) {
  ASSIGN_OR_RETURN(
      const std::string text,
      ReadFile(absl::StrCat("/proc/", process, "/fdinfo/", fd), kMaxDescription));
  Descriptor descriptor;
  bool has_flags = false, has_mount = false, has_inode = false;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(":\t "), absl::SkipEmpty());
    if (words.size() != 2) continue;
    if (words[0] == "flags") {
      char* end = nullptr;
      descriptor.flags = strtoull(words[1].c_str(), &end, 8);
      has_flags = end != nullptr && *end == '\0';
    } else if (words[0] == "mnt_id") {
      has_mount = absl::SimpleAtoi(words[1], &descriptor.mount);
    } else if (words[0] == "ino") {
      has_inode = absl::SimpleAtoi(words[1], &descriptor.inode);
    }
  }
  if (has_flags && has_mount && has_inode) return descriptor;
  return absl::UnimplementedError("this kernel does not describe descriptors");
}

bool IsWritable(const Descriptor& descriptor) {
  const uint64_t mode = descriptor.flags & O_ACCMODE;
  return (descriptor.flags & O_PATH) == 0 && (mode == O_WRONLY || mode == O_RDWR);
}

// True if the mount is of a file system that answers at once; the process must see it.
bool IsLocal(pid_t pid, uint64_t mount) {
  auto text = ReadFile(absl::StrCat("/proc/", pid, "/mountinfo"), kMaxMounts);
  if (!text.ok()) return false;
  const std::string id = absl::StrCat(mount, " ");
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (!absl::StartsWith(line, id)) continue;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    const std::string type(parts.second.substr(0, parts.second.find(' ')));
    return std::find(kLocalFileSystems.begin(), kLocalFileSystems.end(), type) !=
           kLocalFileSystems.end();
  }
  return false;
}

bool IsTerminal(const struct stat& info) {
  if (!S_ISCHR(info.st_mode)) return false;
  const unsigned number = major(info.st_rdev);
  return (number >= kFirstPtyMajor && number <= kLastPtyMajor) ||
         (number == kConsoleMajor && minor(info.st_rdev) < kConsoles);
}

// `object` is the target's standard error, as a path only: it has not been opened yet,
// which for a device could have an effect, and on some file systems take forever.
absl::Status CheckObject(pid_t pid, int object) {
  ASSIGN_OR_RETURN(const Descriptor ours, ReadDescriptor("self", object));
  ASSIGN_OR_RETURN(const std::string name,
                   ReadLink(absl::StrCat("/proc/self/fd/", object)));
  const bool is_pipe = absl::StartsWith(name, "pipe:[");
  if (!is_pipe && !IsLocal(pid, ours.mount)) {
    return absl::FailedPreconditionError(
        "it is no terminal, no pipe and no file on a local file system");
  }
  struct stat info;
  if (fstat(object, &info) != 0) return ErrnoStatus(errno, "fstat failed");
  if (!S_ISFIFO(info.st_mode) && !S_ISREG(info.st_mode) && !IsTerminal(info)) {
    return absl::FailedPreconditionError("it is no terminal, no pipe and no file");
  }
  // A write by root would keep these bits; a write by the target removes them.
  if (S_ISREG(info.st_mode) && (info.st_mode & (S_ISUID | S_ISGID)) != 0) {
    return absl::FailedPreconditionError("it is a set-uid or set-gid file");
  }
  // The target may exchange its descriptor at any time. This shows one moment at which
  // it had this very object open, and for writing.
  ASSIGN_OR_RETURN(const Descriptor theirs,
                   ReadDescriptor(absl::StrCat(pid), STDERR_FILENO));
  if (theirs.inode != ours.inode || theirs.mount != ours.mount) {
    return absl::AbortedError("it was exchanged meanwhile");
  }
  if (!IsWritable(theirs)) {
    return absl::PermissionDeniedError("the process may not write to it");
  }
  return absl::OkStatus();
}

// While it exists, a write by this thread causes neither SIGPIPE nor SIGTTOU.
class QuietWrites {
 public:
  QuietWrites() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGPIPE);
    sigaddset(&signals_, SIGTTOU);
    sigset_t pending;
    sigpending(&pending);
    had_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~QuietWrites() {
    // A SIGPIPE is sent to the thread that has written.
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    const timespec none = {};
    if (!had_pending_) (void)sigtimedwait(&pipe, nullptr, &none);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  QuietWrites(const QuietWrites&) = delete;
  QuietWrites& operator=(const QuietWrites&) = delete;

 private:
  sigset_t signals_, before_;
  bool had_pending_ = false;
};

absl::Status Write(const ProcessId& process, absl::string_view line) {
  ASSIGN_OR_RETURN(
      const UniqueFd object,
      OpenFile(absl::StrCat("/proc/", process.pid, "/fd/", STDERR_FILENO), O_PATH));
  RETURN_IF_ERROR(CheckObject(process.pid, object.get()));
  // While a process lives, no other process has its ID.
  ASSIGN_OR_RETURN(const uint64_t start_ticks, ReadStartTicks(process.pid));
  if (start_ticks != process.start_ticks) {
    return absl::NotFoundError("the process has ended");
  }
  ASSIGN_OR_RETURN(const UniqueFd fd,
                   OpenFile(absl::StrCat("/proc/self/fd/", object.get()),
                            O_WRONLY | O_NONBLOCK | O_NOCTTY | O_APPEND));
  QuietWrites quiet;
  const ssize_t written = write(fd.get(), line.data(), line.size());
  if (written < 0) return ErrnoStatus(errno, "write failed");
  if (static_cast<size_t>(written) != line.size()) {
    return absl::ResourceExhaustedError("there is no room for all of the line");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteToStderrOf(const ProcessId& process, absl::string_view line) {
  absl::Status status = Write(process, absl::StrCat(line, "\n"));
  if (status.ok()) return status;
  return absl::Status(
      status.code(),
      absl::StrCat("nothing was written to the standard error of process ", process.pid,
                   ": ", status.message()));
}

}  // namespace rocattach
