#include "userspace/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr size_t kProcFileLimit = 1 << 20;

std::string ProcPath(pid_t pid, absl::string_view file) {
  return absl::StrCat("/proc/", pid, "/", file);
}

// The beginning of a file: at most `limit` bytes. *cut is true if there is more.
absl::StatusOr<std::string> ReadFilePrefix(const std::string& path, size_t limit,
                                           bool* cut) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_RDONLY | O_NONBLOCK));
  // One extra byte shows whether there is more.
  std::string data(limit + 1, '\0');
  size_t size = 0;
  while (size < data.size()) {
    ssize_t n = read(fd.get(), data.data() + size, data.size() - size);
    if (n == 0) break;
    if (n < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, absl::StrCat("read(", path, ") failed"));
    }
    size += static_cast<size_t>(n);
  }
  *cut = size > limit;
  data.resize(std::min(size, limit));
  data.shrink_to_fit();
  return data;
}

// The fields of /proc/PID/stat after the command, which may itself contain blanks and
// parentheses: the last ')' ends it.
absl::StatusOr<std::vector<std::string>> ReadStatFields(pid_t pid) {
  ASSIGN_OR_RETURN(std::string stat, ReadFile(ProcPath(pid, "stat"), kProcFileLimit));
  size_t end = stat.rfind(')');
  if (end == std::string::npos) {
    return absl::InternalError(absl::StrCat("/proc/", pid, "/stat has no command"));
  }
  return std::vector<std::string>(
      absl::StrSplit(absl::string_view(stat).substr(end + 1), absl::ByAnyChar(" \n"),
                     absl::SkipEmpty()));
}

void ParseStatus(absl::string_view text, ProcessInfo* info) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    std::vector<absl::string_view> parts =
        absl::StrSplit(line, absl::ByAnyChar("\t "), absl::SkipEmpty());
    if (parts.size() < 2) continue;
    if (parts[0] == "Uid:") {
      uint32_t uid;
      // The second number is the effective user id, the one that ptrace checks use.
      if (parts.size() > 2 && absl::SimpleAtoi(parts[2], &uid)) info->uid = uid;
    } else if (parts[0] == "PPid:") {
      (void)absl::SimpleAtoi(parts[1], &info->parent);
    } else if (parts[0] == "TracerPid:") {
      (void)absl::SimpleAtoi(parts[1], &info->tracer);
    }
  }
}

// The entries of a folder of /proc that are numbers of processes or threads.
absl::StatusOr<std::vector<pid_t>> NumbersIn(const std::string& path) {
  ASSIGN_OR_RETURN(const FolderListing entries, ListFolder(path, SIZE_MAX));
  std::vector<pid_t> numbers;
  for (const std::string& name : entries.names) {
    pid_t number = 0;
    if (absl::SimpleAtoi(name, &number) && number > 0) numbers.push_back(number);
  }
  return numbers;
}

// A thread whose /proc entries still show what depends on the process's memory. The
// first thread's do not once it has exited while others run on.
pid_t LivingThread(pid_t pid) {
  char target[1];
  if (readlink(ProcPath(pid, "exe").c_str(), target, sizeof(target)) >= 0) return pid;
  const auto threads = ListThreads(pid);
  if (!threads.ok()) return pid;
  for (pid_t tid : *threads) {
    if (readlink(ProcPath(tid, "exe").c_str(), target, sizeof(target)) >= 0) return tid;
  }
  return pid;
}

}  // namespace

absl::StatusOr<uint64_t> ReadStartTicks(pid_t pid) {
  ASSIGN_OR_RETURN(std::vector<std::string> fields, ReadStatFields(pid));
  uint64_t ticks;
  // Field 22 of the whole line is the 20th after the command.
  if (fields.size() < 20 || !absl::SimpleAtoi(fields[19], &ticks)) {
    return absl::InternalError(absl::StrCat("/proc/", pid, "/stat has no start time"));
  }
  return ticks;
}

ProcessId IdentityOf(pid_t pid) {
  return {pid, ReadStartTicks(pid).value_or(0)};
}

bool Lives(const ProcessId& process) {
  const auto ticks = ReadStartTicks(process.pid);
  return ticks.ok() && *ticks == process.start_ticks;
}

absl::StatusOr<std::string> ReadExecutable(pid_t pid) {
  ASSIGN_OR_RETURN(std::string path, ReadLink(ProcPath(LivingThread(pid), "exe")));
  return std::string(absl::StripSuffix(path, " (deleted)"));
}

absl::StatusOr<std::string> ReadEnvironment(pid_t pid) {
  constexpr size_t kMostBytes = 4 << 20;
  return ReadFile(ProcPath(LivingThread(pid), "environ"), kMostBytes);
}

absl::StatusOr<uint64_t> StartTicksIn(absl::string_view stat) {
  // The command may contain blanks and parentheses: the last ')' ends it. The start
  // time is the 20th field after it.
  const size_t end = stat.rfind(')');
  uint64_t ticks = 0;
  if (end != absl::string_view::npos) {
    const std::vector<absl::string_view> fields =
        absl::StrSplit(stat.substr(end + 1), absl::ByAnyChar(" \n"), absl::SkipEmpty());
    if (fields.size() >= 20 && absl::SimpleAtoi(fields[19], &ticks)) return ticks;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no start time in the ", stat.size(), " bytes of a process's stat"));
}

absl::StatusOr<ProcessInfo> ReadProcessInfo(pid_t pid) {
  ProcessInfo info;
  info.id.pid = pid;
  ASSIGN_OR_RETURN(info.id.start_ticks, ReadStartTicks(pid));
  // Facts that the process hides, or no longer has, stay empty; those that we could not
  // read must not look the same, since policies depend on them. Every process has these
  // two files: without them it has just ended, and the user id would look like root's.
  ASSIGN_OR_RETURN(const std::string status,
                   ReadFile(ProcPath(pid, "status"), kProcFileLimit));
  ParseStatus(status, &info);
  ASSIGN_OR_RETURN(const std::string comm,
                   ReadFile(ProcPath(pid, "comm"), kProcFileLimit));
  info.comm = std::string(absl::StripSuffix(comm, "\n"));
  absl::Status shortage;
  if (auto exe = ReadExecutable(pid); exe.ok()) info.executable = *std::move(exe);
  // If the first thread has exited, the command line is read from another one.
  bool cut = false;
  auto line = ReadFilePrefix(ProcPath(LivingThread(pid), "cmdline"),
                             ProcessInfo::kArgumentBytes, &cut);
  if (line.ok()) {
    info.arguments_cut = cut;
    for (absl::string_view argument :
         absl::StrSplit(absl::StripSuffix(*line, absl::string_view("\0", 1)), '\0')) {
      if (info.arguments.size() == ProcessInfo::kMostArguments) {
        info.arguments_cut = true;
        break;
      }
      info.arguments.emplace_back(argument);
    }
  } else if (IsOwnShortage(ErrnoOf(line.status()))) {
    shortage.Update(line.status());
  }
  const auto cgroup = ReadFile(ProcPath(pid, "cgroup"), kProcFileLimit);
  if (cgroup.ok()) {
    for (absl::string_view entry : absl::StrSplit(*cgroup, '\n')) {
      if (absl::ConsumePrefix(&entry, "0::")) info.cgroup = std::string(entry);
    }
  } else if (IsOwnShortage(ErrnoOf(cgroup.status()))) {
    shortage.Update(cgroup.status());
  }
  RETURN_IF_ERROR(shortage);
  return info;
}

absl::StatusOr<UniqueFd> OpenPidFd(pid_t pid) {
  long fd = syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("pidfd_open(", pid, ") failed"));
  return UniqueFd(static_cast<int>(fd));
}

std::vector<pid_t> ListProcesses() {
  return NumbersIn("/proc").value_or(std::vector<pid_t>());
}

absl::StatusOr<std::vector<pid_t>> ListThreads(pid_t pid) {
  return NumbersIn(ProcPath(pid, "task"));
}

}  // namespace rocattach
