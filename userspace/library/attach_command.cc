#include "userspace/library/attach_command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/process.h"
#include "userspace/base/status_macros.h"
#include "userspace/library/detached_spawn.h"

namespace rocattach {
namespace {

constexpr size_t kMaxLine = 64 << 10;
constexpr size_t kMaxErrors = 4 << 10;
// Room for events that the host has not read yet; if it is full, the recorder waits.
constexpr int kPipeBytes = 1 << 20;
constexpr useconds_t kPollUsec = 20'000;

// Never returns 0, 1 or 2, which the host may have closed.
absl::StatusOr<UniqueFd> MoveUp(UniqueFd fd) {
  UniqueFd moved(fcntl(fd.get(), F_DUPFD_CLOEXEC, 3));
  if (!moved.valid()) return ErrnoStatus(errno, "fcntl(F_DUPFD_CLOEXEC) failed");
  return moved;
}

struct Pipe {
  UniqueFd read, write;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe2 failed");
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  Pipe pipe;
  ASSIGN_OR_RETURN(pipe.read, MoveUp(std::move(read_end)));
  ASSIGN_OR_RETURN(pipe.write, MoveUp(std::move(write_end)));
  return pipe;
}

// The caller's variables (none if it has more rights than the user who set them),
// without those that would load other code into the program, and without those that
// its options replace.
std::vector<std::string> Environment() {
  std::vector<std::string> kept;
  if (getauxval(AT_SECURE) != 0) return kept;
  for (char** variable = environ; variable != nullptr && *variable != nullptr;
       ++variable) {
    const absl::string_view text = *variable;
    if (!absl::StartsWith(text, "LD_") && !absl::StartsWith(text, "ROCPROF_ATTACH_")) {
      kept.emplace_back(text);
    }
  }
  return kept;
}

// True if it is a pidfd of this process, and not a file that the host has opened under
// the same number; -1 stands for a process that has been reaped.
bool IsPidfdOf(int fd, pid_t pid) {
  auto info = ReadFile(absl::StrCat("/proc/self/fdinfo/", fd), 4096);
  if (!info.ok()) return false;
  return absl::StrContains(*info, absl::StrCat("\nPid:\t", pid, "\n")) ||
         absl::StrContains(*info, "\nPid:\t-1\n");
}

// Milliseconds for poll(2), rounded up.
int MsecUntil(uint64_t deadline_ns) {
  const uint64_t now = ClockNs(CLOCK_MONOTONIC);
  if (deadline_ns <= now) return 0;
  return static_cast<int>(
      std::min<uint64_t>((deadline_ns - now + 999'999) / 1'000'000, 60'000));
}

// True if the process has ended; it may still be a zombie.
bool IsGone(pid_t pid, uint64_t start_ticks) {
  auto start = ReadStartTicks(pid);
  if (!start.ok() || *start != start_ticks) return true;
  auto stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"), 4096);
  if (!stat.ok()) return true;
  const size_t name_end = stat->rfind(')');
  return name_end != std::string::npos && stat->substr(name_end, 3) == ") Z";
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttachCommand>> AttachCommand::Start(
    const std::string& program, const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(UniqueFd host, OpenPidFd(getpid()));
  ASSIGN_OR_RETURN(UniqueFd input, MoveUp(std::move(host)));
  ASSIGN_OR_RETURN(Pipe output, MakePipe());
  UniqueFd memory(memfd_create("rocattach-errors", MFD_CLOEXEC));
  if (!memory.valid()) return ErrnoStatus(errno, "memfd_create failed");
  ASSIGN_OR_RETURN(UniqueFd errors, MoveUp(std::move(memory)));
  (void)fcntl(output.write.get(), F_SETPIPE_SZ, kPipeBytes);
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  ASSIGN_OR_RETURN(DetachedProcess process,
                   SpawnDetached(program, words, Environment(), input.get(),
                                 output.write.get(), errors.get()));
  auto recorder = std::unique_ptr<AttachCommand>(new AttachCommand());
  recorder->pid_ = process.pid;
  recorder->start_ticks_ = ReadStartTicks(process.pid).value_or(0);
  ASSIGN_OR_RETURN(UniqueFd pidfd, MoveUp(std::move(process.pidfd)));
  recorder->pidfd_ = GuardedFd(std::move(pidfd));
  recorder->output_ = GuardedFd(std::move(output.read));
  recorder->errors_ = GuardedFd(std::move(errors));
  return recorder;
}

int AttachCommand::Pidfd() {
  const int fd = pidfd_.get();
  if (fd >= 0 && IsPidfdOf(fd, pid_)) return fd;
  if (fd >= 0) pidfd_.forget();
  auto again = OpenPidFd(pid_);
  // In this order: the ID had not been reused when the pidfd was opened.
  if (!again.ok() || IsGone(pid_, start_ticks_)) return -1;
  auto moved = MoveUp(*std::move(again));
  if (moved.ok()) pidfd_ = GuardedFd(*std::move(moved));
  return pidfd_.get();
}

int AttachCommand::Output() {
  if (const int fd = output_.get(); fd >= 0) return fd;
  if (Pidfd() < 0) return -1;
  // The pipe still exists: the recorder has its other end.
  auto again = OpenFile(absl::StrCat("/proc/", pid_, "/fd/1"), O_RDONLY);
  if (!again.ok()) return -1;
  auto moved = MoveUp(*std::move(again));
  if (moved.ok()) output_ = GuardedFd(*std::move(moved));
  return output_.get();
}

void AttachCommand::Signal(int number) {
  if (const int fd = Pidfd(); fd >= 0) {
    (void)syscall(SYS_pidfd_send_signal, fd, number, nullptr, 0);
  }
}

void AttachCommand::RequestEnd() {
  if (asked_) return;
  asked_ = true;
  // Open it now if the host has closed it: the last events must be readable.
  (void)Output();
  Signal(SIGTERM);
}

absl::StatusOr<std::string> AttachCommand::ReadLine(uint64_t deadline_ns) {
  while (true) {
    if (const size_t end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      if (std::exchange(cut_, false) && line.empty()) continue;
      return line;
    }
    const int fd = Output();
    if (fd < 0) return absl::OutOfRangeError("the descriptor was closed");
    pollfd ready = {fd, POLLIN, 0};
    const int timeout = MsecUntil(deadline_ns);
    const int got = poll(&ready, 1, timeout);
    if (got < 0 && errno != EINTR) return ErrnoStatus(errno, "poll failed");
    if (got <= 0) {
      if (MsecUntil(deadline_ns) > 0) continue;
      return absl::DeadlineExceededError("no answer from rocattach");
    }
    char buffer[4096];
    const ssize_t bytes = read(fd, buffer, sizeof(buffer));
    // EBADF: closed by the host just now.
    if (bytes < 0 && (errno == EINTR || errno == EBADF)) continue;
    if (bytes <= 0) return absl::OutOfRangeError("rocattach has ended");
    absl::string_view text(buffer, static_cast<size_t>(bytes));
    if (unread_.size() + text.size() > kMaxLine) {
      // Only what belongs to this line is dropped.
      const size_t end = text.find('\n');
      if (end == absl::string_view::npos) {
        cut_ = true;
        continue;
      }
      text.remove_prefix(end);
    }
    absl::StrAppend(&unread_, text);
  }
}

bool AttachCommand::WaitForEnd(uint64_t deadline_ns) {
  while (!ended_) {
    if (const int fd = Pidfd(); fd >= 0) {
      pollfd ready = {fd, POLLIN, 0};
      ended_ = poll(&ready, 1, MsecUntil(deadline_ns)) > 0;
      if (ended_) {
        // It is our child only if this process is init or a subreaper.
        siginfo_t info;
        (void)waitid(P_PIDFD, static_cast<id_t>(fd), &info, WEXITED | WNOHANG | __WALL);
      }
    } else {
      // No descriptor could be opened: the host has none left.
      ended_ = IsGone(pid_, start_ticks_);
      if (!ended_) usleep(kPollUsec);
    }
    if (!ended_ && MsecUntil(deadline_ns) == 0) return false;
  }
  return true;
}

std::string AttachCommand::Errors() {
  const int fd = errors_.get();
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0) return "";
  const off_t begin = std::max<off_t>(0, info.st_size - off_t{kMaxErrors});
  std::string text(static_cast<size_t>(info.st_size - begin), '\0');
  const ssize_t bytes = pread(fd, text.data(), text.size(), begin);
  text.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
  return text;
}

}  // namespace rocattach
