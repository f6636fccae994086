// Stops attaching where processes crash right after an attach.
#ifndef ROCATTACH_USERSPACE_WATCH_CRASH_BREAKER_H_
#define ROCATTACH_USERSPACE_WATCH_CRASH_BREAKER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "userspace/base/process.h"

namespace rocattach {

// A process that is killed by a fault (SIGSEGV, SIGABRT, …) within kWatchedNs after
// an attach may have crashed because of it. Its executable is then not attached to
// for kPauseNs; after crashes of kMostCrashes executables, no process is. The
// program's own crashes count as well: not recording a crashing program costs less
// than an attach that crashes every instance of it. Thread-safe. All times are
// CLOCK_BOOTTIME.
class CrashBreaker {
 public:
  static constexpr uint64_t kWatchedNs = 5'000'000'000;
  static constexpr uint64_t kPauseNs = 600'000'000'000;
  static constexpr size_t kMostCrashes = 3;

  // Records an attach. Ignores a process without the name of its executable.
  void OnAttached(const ProcessId& process, const std::string& executable,
                  uint64_t now_ns) ABSL_LOCKS_EXCLUDED(mutex_);
  // Records the end of a process, with the status of wait(2).
  void OnExit(const ProcessId& process, int wait_status, uint64_t now_ns)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Why a process of this executable must not be attached to; empty if it may be.
  std::string WhyNot(const std::string& executable, uint64_t now_ns)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // False if WhyNot() is empty for all executables. A single load, for windows that are
  // served from their event alone.
  bool tripped() const { return tripped_.load(std::memory_order_relaxed); }

 private:
  struct Attached {
    std::string executable;
    uint64_t time_ns = 0;
  };
  struct Crash {
    int signal = 0;
    pid_t pid = 0;
    uint64_t after_ns = 0;  // from the attach to the crash
    uint64_t until_ns = 0;  // end of the pause
  };

  void Forget(uint64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  std::map<ProcessId, Attached> attached_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Crash> crashes_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> tripped_ = false;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_CRASH_BREAKER_H_
