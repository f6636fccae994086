// Processes that have not started their HSA runtime yet: the service waits to enter
// each of them at its window.
#ifndef ROCATTACH_USERSPACE_SERVICE_AWAITED_STARTS_H_
#define ROCATTACH_USERSPACE_SERVICE_AWAITED_STARTS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "userspace/base/process.h"
#include "userspace/watch/late/runtime_start.h"

namespace rocattach {

// Thread-safe.
class AwaitedStarts {
 public:
  struct Functions {
    // True if the process lives and has opened its window, which brings its verdict.
    std::function<bool(pid_t)> has_window;
    std::function<absl::StatusOr<RuntimeStart>(pid_t)> read_start;
    std::function<absl::StatusOr<uint64_t>(pid_t)> read_start_ticks;
    // Milliseconds.
    std::function<uint64_t()> now;
  };
  // Changes since the last Poll().
  struct Changes {
    // Processes that have started their runtime without a window: before the probe was
    // in place, or from a copy that has none.
    std::vector<pid_t> started;
    // Processes that have loaded a copy of the runtime, which may need a probe; once.
    std::vector<pid_t> loaded;
    // Processes that will not be attached to any more, with the reason.
    std::map<pid_t, absl::Status> given_up;
  };

  // `timeout_msec`: time limit for waiting for each process; 0: no limit.
  AwaitedStarts(Functions functions, uint64_t timeout_msec)
      : functions_(std::move(functions)), timeout_msec_(timeout_msec) {}

  void Add(const ProcessId& process) ABSL_LOCKS_EXCLUDED(mutex_);
  // Called when any process has opened its window, also one that is not awaited.
  void OnWindow(pid_t pid) ABSL_LOCKS_EXCLUDED(mutex_);
  bool empty() const ABSL_LOCKS_EXCLUDED(mutex_);
  Changes Poll() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Awaited {
    uint64_t start_ticks = 0;
    uint64_t since = 0;
    // True if it has ended; the event of an earlier window may still be on the way.
    bool gone = false;
    bool loaded = false;
    // When it became unknown whether its runtime has started; 0: it is known.
    uint64_t unknown_since = 0;
  };

  // A runtime's state is unknown while it is being loaded. After this time it stays so.
  static constexpr uint64_t kLoadingMsec = 1000;

  // True if the runtime's state has been unknown for so long that it counts as started.
  bool HasSettled(RuntimeStart start, Awaited* awaited) const;

  const Functions functions_;
  const uint64_t timeout_msec_;
  mutable absl::Mutex mutex_;
  std::map<pid_t, Awaited> awaited_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_AWAITED_STARTS_H_
