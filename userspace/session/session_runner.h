// Runs sessions: on processes that this program accesses itself, or through a service.
#ifndef ROCATTACH_USERSPACE_SESSION_SESSION_RUNNER_H_
#define ROCATTACH_USERSPACE_SESSION_SESSION_RUNNER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/session/session_record.h"
#include "userspace/session/session_types.h"
#include "userspace/session/target_names.h"

namespace rocattach {

// While one exists, this thread runs a callback of the program. It must not wait for
// records to be delivered: it may be delivering them.
class UserCallback {
 public:
  UserCallback() { ++depth_; }
  ~UserCallback() { --depth_; }
  UserCallback(const UserCallback&) = delete;
  UserCallback& operator=(const UserCallback&) = delete;
  static bool Active() { return depth_ > 0; }

 private:
  static inline thread_local int depth_ = 0;
};

// Receives the finished records of one start of a session. Thread-safe.
class RecordConsumer {
 public:
  virtual ~RecordConsumer() = default;
  // The records [begin, end), valid during the call. `selected_by` tells which filters
  // selected a dispatch.
  virtual void Consume(const RecordHeader* begin, const RecordHeader* end) = 0;
  // All records of this process have been passed on.
  virtual void TargetEnded(ProcessId target) = 0;
  // For records that come from a service: counts those that were lost on the way.
  virtual void CountLost(uint64_t records) { (void)records; }
  // Delivers what it has buffered.
  virtual void Flush() {}
};

// The parameters of one start of a session.
struct RunSpec {
  SessionId session = {};
  std::vector<FilterSpec> filters;  // checked, one of each kind
  std::vector<ProcessId> targets;   // empty: all current and future ones
  // Null if no program reads the records: the backend stores them elsewhere.
  std::shared_ptr<RecordConsumer> consumer = {};
  // Receives the names that records need, before those records.
  std::shared_ptr<SessionTargetNames> names = {};
  // Called if the run ends by itself after Start, on any thread, at most once, not from
  // Stop and not after it. All records that had arrived have then been delivered.
  std::function<void(const absl::Status& why)> lost = {};
};

// One start of a session. Start and Stop are called one at a time; the others from any
// thread, EndAt also while one of them waits. Errors carry a SessionStatus.
class SessionRun {
 public:
  virtual ~SessionRun() = default;

  // On success, records arrive until Stop returns. After an error, Stop is called too:
  // something may have been started before the failure.
  virtual absl::Status Start() = 0;
  // When it returns, all records have been passed to the consumer, unless it was called
  // from inside a user's callback, which must not wait.
  virtual absl::Status Stop() = 0;
  // Ends the run at that time in each process, even if Stop is called later, and also
  // what Start waits for. Never later than an earlier call has set.
  virtual void EndAt(uint64_t boot_ns) { (void)boot_ns; }
  // Delivers what has been recorded so far. Never called from a user's callback.
  virtual absl::Status Drain() = 0;
  // OK if it still collects, as far as that is known without a long wait.
  virtual absl::Status Check() { return absl::OkStatus(); }
};

// The counters of a GPU for all processes that use it, from construction on.
class DeviceRun {
 public:
  virtual ~DeviceRun() = default;
  // One value per counter, NaN where there is none.
  virtual absl::StatusOr<std::vector<double>> Poll() = 0;
  virtual absl::Status Stop() = 0;
  // True if it has ended by itself.
  virtual bool lost() const { return false; }
};

// Thread-safe. Errors carry a SessionStatus.
class SessionRunner {
 public:
  virtual ~SessionRunner() = default;

  // Called before sessions are created. ERROR if no service is there to collect.
  virtual absl::Status Connect() { return absl::OkStatus(); }
  // Checks in the order that rocattach_create_filter documents, from its kind on.
  virtual absl::Status CheckFilter(const FilterSpec& filter) = 0;
  // The process that has this pid now; INVALID_ARGUMENTS.
  virtual absl::StatusOr<ProcessId> FindTarget(pid_t pid) = 0;
  // The run does nothing before its Start.
  virtual std::shared_ptr<SessionRun> NewRun(RunSpec spec) = 0;

  // The key of the GPU with this index, if its counters can be measured: errors as for
  // rocattach_device_profiling_session_create.
  virtual absl::StatusOr<std::string> CheckDevice(
      const std::vector<std::string>& counters, int gpu_index) = 0;
  virtual absl::StatusOr<std::shared_ptr<DeviceRun>> StartDevice(
      SessionId session, const std::vector<std::string>& counters,
      const std::string& gpu_key) = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_SESSION_RUNNER_H_
