// Processes that have mapped a copy of the runtime before it had a probe. Each of them
// ends in exactly one of these ways: its window was seen, it is entered late, it had
// not started its runtime before the probe was in place, or it is counted as missed.
#ifndef ROCATTACH_USERSPACE_WATCH_LATE_EXPECTED_WINDOWS_H_
#define ROCATTACH_USERSPACE_WATCH_LATE_EXPECTED_WINDOWS_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "userspace/base/process.h"
#include "userspace/watch/late/runtime_start.h"

namespace rocattach {

// Reasons why a process has no window, or may have had none.
enum class MissReason : uint8_t {
  // Its runtime had started when the probe was placed; the process is entered late.
  kLate = 0,
  // It ended before its state was known: it may or may not have used a GPU.
  kUncertain = 1,
  // The maximum number of copies already had a probe.
  kTooManyCopies = 2,
  // The file cannot be probed, or could not be read in time.
  kNotProbed = 3,
  // It uses the kernel driver, but no copy of the runtime was seen in it: the copy is
  // linked statically, or has another name.
  kUnknownCopy = 4,
};
inline constexpr std::array kMissReasons = {
    MissReason::kLate, MissReason::kUncertain, MissReason::kTooManyCopies,
    MissReason::kNotProbed, MissReason::kUnknownCopy};
// Stable, lower case, words joined by '_'.
absl::string_view MissReasonName(MissReason reason);

// Number of processes by reason.
struct MissedWindows {
  std::array<uint64_t, kMissReasons.size()> counts = {};
  uint64_t& operator[](MissReason r) { return counts[static_cast<size_t>(r)]; }
  uint64_t operator[](MissReason r) const { return counts[static_cast<size_t>(r)]; }
};

// Thread-safe.
class ExpectedWindows {
 public:
  struct Functions {
    std::function<bool(const ProcessId&)> has_window;
    std::function<absl::StatusOr<RuntimeStart>(pid_t)> read_start;
    std::function<bool(const ProcessId&)> lives;
    std::function<uint64_t()> now_msec;
    // Called when a process was counted in missed(). May be null; must not call back.
    std::function<void(const ProcessId&, MissReason)> on_missed = nullptr;
  };
  explicit ExpectedWindows(Functions functions) : functions_(std::move(functions)) {}

  // Adds a process that has mapped a copy, or a further one, without a probe. Start time
  // 0: it was gone before it could be identified.
  void Add(const ProcessId& process) ABSL_LOCKS_EXCLUDED(mutex_);
  // Called when its copy has got a probe, or will never have one, for this reason.
  void OnProbed(const ProcessId& process) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnNotProbed(const ProcessId& process, MissReason why)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets the process: the file that it has mapped is no runtime.
  void Dismiss(const ProcessId& process) ABSL_LOCKS_EXCLUDED(mutex_);
  // Called when the kernel driver lists the process, so its runtime has started.
  // Returns true if no window of it was seen and none is expected: it is counted then,
  // once.
  bool OnDriverUse(const ProcessId& process) ABSL_LOCKS_EXCLUDED(mutex_);
  // Called for each window, which may be of any process.
  void OnWindow(const ProcessId& process) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the processes that are not settled. Each must be polled, or postponed,
  // before it is returned again.
  std::vector<ProcessId> Open() ABSL_LOCKS_EXCLUDED(mutex_);
  // Reads one of them, which may take any time. True if it is to be entered late.
  bool Poll(const ProcessId& process) ABSL_LOCKS_EXCLUDED(mutex_);
  void Postpone(const ProcessId& process) ABSL_LOCKS_EXCLUDED(mutex_);
  // Settles what is open as it was polled last. After OnWindow() for all windows.
  void Finish() ABSL_LOCKS_EXCLUDED(mutex_);
  bool empty() const ABSL_LOCKS_EXCLUDED(mutex_);
  MissedWindows missed() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Expected {
    bool probed = false;
    // When it was found to have ended; 0: it lives. The event of an earlier window may
    // still be on the way.
    uint64_t gone_msec = 0;
    uint64_t unknown_since_msec = 0;
    bool started = true;   // its runtime; true also if unknown
    bool polling = false;  // see Open()
  };
  enum class Fate { kOpen, kSettled, kLate, kUncertain };
  void Miss(const ProcessId& process, MissReason why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reads the process.
  Fate Decide(const ProcessId& process, Expected* expected) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // A runtime's state is unknown while it is being loaded, which on a busy machine has
  // taken more than a second. After this time, it stays unknown.
  static constexpr uint64_t kLoadingMsec = 5000;
  static constexpr uint64_t kNewsMsec = 1000;
  static constexpr size_t kMostRecent = 4096;

  const Functions functions_;
  mutable absl::Mutex mutex_;
  std::map<ProcessId, Expected> expected_ ABSL_GUARDED_BY(mutex_);
  // The last windows: they may come before the mappings of their processes.
  std::deque<ProcessId> recent_ ABSL_GUARDED_BY(mutex_);
  // The last processes that were counted as missed.
  std::deque<ProcessId> missing_ ABSL_GUARDED_BY(mutex_);
  MissedWindows missed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_LATE_EXPECTED_WINDOWS_H_
