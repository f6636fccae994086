// Running processes without a thread that can be entered: the attach is tried again
// until they have one.
#ifndef ROCATTACH_USERSPACE_SERVICE_AWAITED_SAFE_POINTS_H_
#define ROCATTACH_USERSPACE_SERVICE_AWAITED_SAFE_POINTS_H_

#include <sys/types.h>

#include <cstdint>
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

namespace rocattach {

// Thread-safe.
class AwaitedSafePoints {
 public:
  struct Functions {
    std::function<absl::StatusOr<uint64_t>(pid_t)> read_start_ticks;
    // Milliseconds.
    std::function<uint64_t()> now;
  };
  // Changes since the last Poll().
  struct Changes {
    std::vector<pid_t> due;                  // to be tried again now
    std::map<pid_t, absl::Status> given_up;  // with the reason
  };

  // `timeout_msec`: time limit for trying each process; 0: no limit.
  AwaitedSafePoints(Functions functions, uint64_t timeout_msec)
      : functions_(std::move(functions)), timeout_msec_(timeout_msec) {}

  // Notes a failed attempt and its reason; returns true if it was the first one.
  bool Add(const ProcessId& process, const std::string& why)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Called at the process's verdict, or if another reason prevents the attach.
  void Remove(pid_t pid) ABSL_LOCKS_EXCLUDED(mutex_);
  bool empty() const ABSL_LOCKS_EXCLUDED(mutex_);
  // A process that was returned as due is not returned again before its next Add().
  Changes Poll() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Each attempt watches the process's calls for half a second, so the pauses between
  // attempts hardly matter to a process that makes any.
  static constexpr uint64_t kFirstPauseMsec = 100;
  static constexpr uint64_t kLongestPauseMsec = 1000;

  struct Awaited {
    uint64_t start_ticks = 0;
    uint64_t since = 0;
    uint64_t pause = kFirstPauseMsec;
    uint64_t due = 0;
    bool being_tried = false;
    std::string why;
  };

  const Functions functions_;
  const uint64_t timeout_msec_;
  mutable absl::Mutex mutex_;
  std::map<pid_t, Awaited> awaited_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_AWAITED_SAFE_POINTS_H_
