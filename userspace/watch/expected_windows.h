// Processes that have mapped a copy of the runtime which had no probe then. Each one
// ends as exactly one of these: its window was seen, it is entered late, it did not
// start its runtime before the probe was in place, or it is counted as missed.
#ifndef ROCATTACH_USERSPACE_WATCH_EXPECTED_WINDOWS_H_
#define ROCATTACH_USERSPACE_WATCH_EXPECTED_WINDOWS_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "userspace/base/process.h"
#include "userspace/watch/runtime_start.h"

namespace rocattach {

// Why a process has no window, or may have had none.
enum class MissReason : uint8_t {
  // It had started its runtime when the probe was placed; it is entered late.
  kLate = 0,
  // It ended before that was known: it may have used a GPU, or not.
  kUncertain = 1,
  // There are as many copies as get a probe.
  kTooManyCopies = 2,
  // The file cannot be probed, or could not be read in time.
  kNotProbed = 3,
  // It uses the kernel driver, and no copy of the runtime was seen in it: that is linked
  // statically, or has another name.
  kUnknownCopy = 4,
};
inline constexpr std::array kMissReasons = {
    MissReason::kLate, MissReason::kUncertain, MissReason::kTooManyCopies,
    MissReason::kNotProbed, MissReason::kUnknownCopy};
// Stable, lower case, words joined by '_'.
absl::string_view MissReasonName(MissReason reason);

// Processes by reason.
struct MissedWindows {
  std::array<uint64_t, kMissReasons.size()> counts = {};
  uint64_t& operator[](MissReason r) { return counts[static_cast<size_t>(r)]; }
  uint64_t operator[](MissReason r) const { return counts[static_cast<size_t>(r)]; }
};

// Thread-safe.
class ExpectedWindows {
 public:
  struct Functions {
    std::function<bool(pid_t)> has_window;
    std::function<absl::StatusOr<RuntimeStart>(pid_t)> read_start;
    std::function<absl::StatusOr<uint64_t>(pid_t)> read_start_ticks;
    std::function<uint64_t()> now_msec;
    // A process was counted in missed(). May be null; must not call back.
    std::function<void(const ProcessId&, MissReason)> on_missed = nullptr;
  };
  explicit ExpectedWindows(Functions functions) : functions_(std::move(functions)) {}

  // The process has mapped a copy without a probe. Again for the same one: no effect.
  void Add(pid_t pid) ABSL_LOCKS_EXCLUDED(mutex_);
  // Its copy has a probe now, or never will for this reason.
  void NoteProbed(pid_t pid) ABSL_LOCKS_EXCLUDED(mutex_);
  void NoteNotProbed(pid_t pid, MissReason why) ABSL_LOCKS_EXCLUDED(mutex_);
  // What it has mapped is no runtime.
  void Dismiss(pid_t pid) ABSL_LOCKS_EXCLUDED(mutex_);
  // The kernel driver knows the process, so its runtime has started. True if no window
  // of it was seen and none is expected: it is counted, once.
  bool NoteDriverUse(const ProcessId& process) ABSL_LOCKS_EXCLUDED(mutex_);
  // A window was seen, of any process.
  void NoteWindow(const ProcessId& process) ABSL_LOCKS_EXCLUDED(mutex_);
  // Those that are not settled. Each is to be polled, or postponed, before it is
  // returned again.
  std::vector<pid_t> Open() ABSL_LOCKS_EXCLUDED(mutex_);
  // Looks at one of them, which can take as long as it likes. Returns it if it is to be
  // entered late.
  std::optional<ProcessId> Poll(pid_t pid) ABSL_LOCKS_EXCLUDED(mutex_);
  void Postpone(pid_t pid) ABSL_LOCKS_EXCLUDED(mutex_);
  // No window will be noted any more: what is open is settled, as it was polled last.
  void Finish() ABSL_LOCKS_EXCLUDED(mutex_);
  bool empty() const ABSL_LOCKS_EXCLUDED(mutex_);
  MissedWindows missed() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Expected {
    uint64_t start_ticks = 0;  // 0: it was gone before it could be identified
    bool probed = false;
    // When it was found to have ended; 0: it lives. News of a window that came before
    // may be on the way.
    uint64_t gone_msec = 0;
    uint64_t unknown_since_msec = 0;
    bool started = true;   // its runtime, or it is not known
    bool polling = false;  // see Open()
  };
  enum class Fate { kOpen, kSettled, kLate, kUncertain };
  void Miss(pid_t pid, const Expected& expected, MissReason why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reads the process.
  Fate Decide(pid_t pid, Expected* expected) const ABSL_LOCKS_EXCLUDED(mutex_);

  // While a runtime is being loaded its state is not known. Later, it never will be. On a
  // crowded machine that has taken more than a second.
  static constexpr uint64_t kLoadingMsec = 5000;
  static constexpr uint64_t kNewsMsec = 1000;
  static constexpr size_t kMostRecent = 4096;

  const Functions functions_;
  mutable absl::Mutex mutex_;
  std::map<pid_t, Expected> expected_ ABSL_GUARDED_BY(mutex_);
  // Windows may be noted before the mapping of their process is.
  std::deque<ProcessId> recent_ ABSL_GUARDED_BY(mutex_);
  // Those that were counted as missed last.
  std::deque<ProcessId> missing_ ABSL_GUARDED_BY(mutex_);
  MissedWindows missed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_EXPECTED_WINDOWS_H_
