// Running processes that a service is to attach to, each with its state from the request
// to the verdict.
#ifndef ROCATTACH_USERSPACE_SERVICE_LATE_TARGETS_H_
#define ROCATTACH_USERSPACE_SERVICE_LATE_TARGETS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "userspace/base/process.h"
#include "userspace/watch/late/runtime_start.h"

namespace rocattach {

// The states, and what leads from one to another:
//   awaits its start   its runtime starts without a window: entering; it opens a window,
//                      ends, or takes too long: forgotten
//   entering           no thread can be entered now: awaits a safe point; a verdict, or
//                      another failure: forgotten
//   awaits a safe point  a pause is over: entering; it ends, or takes too long: forgotten
// Thread-safe. Processes are read without the lock, because they can block their reader.
class LateTargets {
 public:
  struct Functions {
    // True if the process lives and has opened its window, which brings its verdict.
    std::function<bool(const ProcessId&)> has_window;
    // NOT_FOUND if the process has ended.
    std::function<absl::StatusOr<RuntimeStart>(const ProcessId&)> read_start;
    std::function<bool(const ProcessId&)> lives;
    std::function<uint64_t()> now_msec;  // of a monotonic clock
  };
  // Changes since the last Poll().
  struct Changes {
    // Processes that are entering from now on: their runtime has started without a
    // window, before the probe was in place or from a copy that has none; or their pause
    // is over.
    std::vector<ProcessId> to_enter;
    // Processes that have loaded a copy of the runtime, which may need a probe; once.
    std::vector<ProcessId> loaded;
    // Processes that are forgotten without a verdict, with the reason.
    std::map<ProcessId, absl::Status> given_up;
  };
  // What follows from a failed attempt.
  enum class Next { kForgotten, kAwaited, kStillAwaited };

  // `waits`: processes without a safe point are tried again. `timeout_msec`: time limit
  // for waiting for each process; 0: no limit.
  LateTargets(Functions functions, bool waits, uint64_t timeout_msec)
      : functions_(std::move(functions)), waits_(waits), timeout_msec_(timeout_msec) {}

  // Waits for processes that have not started their runtime.
  void AwaitStart(const ProcessId& process) ABSL_LOCKS_EXCLUDED(mutex_);
  // These are being entered, and their verdicts are awaited.
  void Enter(const std::vector<ProcessId>& processes) ABSL_LOCKS_EXCLUDED(mutex_);
  // True for the first call for a process: another attempt is made only once.
  bool Retry(const ProcessId& process) ABSL_LOCKS_EXCLUDED(mutex_);

  // Called when any process has opened its window.
  void OnWindow(const ProcessId& process) ABSL_LOCKS_EXCLUDED(mutex_);
  // Called for each verdict, also of a process that is not one of these. `retried`:
  // another attempt follows, so this verdict may not be the last one.
  void OnVerdict(const ProcessId& process, bool retried) ABSL_LOCKS_EXCLUDED(mutex_);
  // Called if an attempt ended without a window; ABORTED: no thread could be entered.
  Next OnUnentered(const ProcessId& process, const absl::Status& why)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets a process that is not to be attached to.
  void Remove(const ProcessId& process) ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets, and returns, the processes that have been entering for this long while no
  // other was settled either: they are attached to one after the other.
  std::vector<ProcessId> TakeOverdue(uint64_t msec) ABSL_LOCKS_EXCLUDED(mutex_);
  Changes Poll() ABSL_LOCKS_EXCLUDED(mutex_);

  // True if no verdict is awaited of a process that is being entered.
  bool settled() const ABSL_LOCKS_EXCLUDED(mutex_);
  // True if processes are waited for: for their start, or until they can be entered.
  bool waits() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // A runtime's state is unknown while it is being loaded. After this time it stays so.
  static constexpr uint64_t kLoadingMsec = 1000;
  // Maximum time in which a retry can bring another verdict.
  static constexpr uint64_t kRetryMsec = 3000;
  // Each attempt watches the process's calls for half a second, so the pauses between
  // attempts hardly matter to a process that makes any.
  static constexpr uint64_t kFirstPauseMsec = 100;
  static constexpr uint64_t kLongestPauseMsec = 1000;
  static constexpr size_t kMostRetried = 4096;

  enum class State : uint8_t { kAwaitsStart, kEntering, kAwaitsSafePoint };
  // The attempts of a process without a safe point.
  struct Attempts {
    uint64_t since_msec = 0;
    uint64_t pause_msec = 0;  // after the last one; 0: there was none
    uint64_t due_msec = 0;
    std::string why;
  };
  struct Target {
    State state = State::kEntering;
    uint64_t since_msec = 0;  // in this state
    // While it awaits its start:
    bool gone = false;  // it has ended; the event of its window may be on the way
    bool loaded = false;
    uint64_t unknown_since_msec = 0;  // 0: it is known whether its runtime has started
    Attempts attempts;
    // Set by a verdict that a retry may replace: when it becomes the last one.
    uint64_t final_msec = 0;
  };

  std::vector<ProcessId> InState(State state) const ABSL_LOCKS_EXCLUDED(mutex_);
  void PollStart(const ProcessId& process, Changes* changes)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void PollSafePoint(const ProcessId& process, Changes* changes)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void BeginEntering(Target* target) const;
  // True if the runtime's state has been unknown for so long that it counts as started.
  bool CountsAsStarted(RuntimeStart start, Target* target) const;
  bool IsOverdue(uint64_t since_msec) const;

  const Functions functions_;
  const bool waits_;
  const uint64_t timeout_msec_;
  mutable absl::Mutex mutex_;
  std::map<ProcessId, Target> targets_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_settled_msec_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<ProcessId> retried_ ABSL_GUARDED_BY(mutex_);  // the last ones
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_LATE_TARGETS_H_
