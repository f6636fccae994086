// Information about a process from /proc. All of it may be outdated at once: hold a
// pidfd, or compare start times, before acting on it.
#ifndef ROCATTACH_USERSPACE_BASE_PROCESS_H_
#define ROCATTACH_USERSPACE_BASE_PROCESS_H_

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/base/clock.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// A process and when it started: the pair identifies one process forever, whereas a pid
// alone is reused.
struct ProcessId {
  pid_t pid = 0;
  // CLOCK_BOOTTIME in clock ticks (field 22 of /proc/PID/stat, 10 ms resolution).
  uint64_t start_ticks = 0;

  // `start_ns` as the kernel keeps it (task_struct.start_boottime).
  static ProcessId StartedAt(pid_t pid, uint64_t start_ns) {
    return {pid, start_ns / ClockTickNs()};
  }
  auto operator<=>(const ProcessId&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const ProcessId& id) {
    return H::combine(std::move(h), id.pid, id.start_ticks);
  }
};

// Descriptive facts for policies, reports and logs. Empty where it could not be read.
struct ProcessInfo {
  static constexpr size_t kArgumentBytes = 16 << 10;
  static constexpr size_t kMostArguments = 1024;
  ProcessId id;
  pid_t parent = 0;
  uid_t uid = 0;
  pid_t tracer = 0;  // TracerPid: another debugger, 0 if none
  std::string comm;
  std::string executable;  // /proc/PID/exe, without " (deleted)"
  // The first ones, kArgumentBytes in all; a process may have megabytes of them.
  std::vector<std::string> arguments;
  bool arguments_cut = false;  // there is more
  std::string cgroup;          // path in the unified hierarchy
};

// Start time of `pid` in clock ticks since boot.
absl::StatusOr<uint64_t> ReadStartTicks(pid_t pid);

// The process that has this ID now; start_ticks is 0 if none has.
ProcessId IdentityOf(pid_t pid);
// True if the process has not ended, or waits for its parent (a zombie).
bool Lives(const ProcessId& process);

// ProcessId::start_ticks in `stat`, the contents of /proc/PID/stat. INVALID_ARGUMENT if
// it has none.
absl::StatusOr<uint64_t> StartTicksIn(absl::string_view stat);

// Reads all of ProcessInfo; NOT_FOUND when there is no such process.
absl::StatusOr<ProcessInfo> ReadProcessInfo(pid_t pid);
// ProcessInfo::executable alone, at a fraction of the cost.
absl::StatusOr<std::string> ReadExecutable(pid_t pid);
// The environment as it lies in the process's memory, at most 4 MiB: NAME=VALUE strings,
// each ended by a NUL. It is where the process had it at its start, and may have been
// overwritten since.
absl::StatusOr<std::string> ReadEnvironment(pid_t pid);

// pidfd_open(2).
absl::StatusOr<UniqueFd> OpenPidFd(pid_t pid);

// All process ids in /proc now.
std::vector<pid_t> ListProcesses();
// The threads of a process; NOT_FOUND if there is no such process.
absl::StatusOr<std::vector<pid_t>> ListThreads(pid_t pid);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_PROCESS_H_
