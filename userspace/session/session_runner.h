// Runs sessions: on processes that this program accesses itself, or through a service.
// The engine keeps sessions, filters and buffers; a runner collects.
#ifndef ROCATTACH_USERSPACE_SESSION_SESSION_RUNNER_H_
#define ROCATTACH_USERSPACE_SESSION_SESSION_RUNNER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/session/compiled_plan.h"
#include "userspace/session/record_router.h"
#include "userspace/session/session_types.h"
#include "userspace/session/target_names.h"

namespace rocattach {

// The parameters of one start of a session.
struct RunSpec {
  SessionId session = {};
  std::vector<FilterSpec> filters;  // checked, one of each kind
  std::vector<ProcessId> targets;   // empty: all current and future ones
  // Receives the names that records need, before those records.
  std::shared_ptr<SessionTargetNames> names = {};
  // Called if the run ends by itself after Start, on any thread, at most once, not from
  // Stop and not after it. All records that had arrived have then been delivered.
  std::function<void(const absl::Status& why)> lost = {};
};

// One start of a session. Start, Arrived and Stop are called one at a time; the others
// from any thread, EndAt also while one of them waits. Errors carry a SessionStatus.
class SessionRun {
 public:
  virtual ~SessionRun() = default;

  // On success, records arrive until Stop returns. After an error, Stop is called too:
  // something may have been started before the failure.
  virtual absl::Status Start() = 0;
  // When it returns, all records have been passed to the router, unless it was called
  // from inside a user's callback, which must not wait.
  virtual absl::Status Stop() = 0;
  // Ends the run at that time in each process, even if Stop is called later, and also
  // what Start or Arrived wait for. Never later than an earlier call has set.
  virtual void EndAt(uint64_t boot_ns) { (void)boot_ns; }
  // Delivers what has been recorded so far. Never called from a user's callback.
  virtual absl::Status Drain() = 0;
  // OK if it still collects, as far as that is known without a long wait.
  virtual absl::Status Check() { return absl::OkStatus(); }
  // A process became ready; only for runs of all processes.
  virtual void Arrived(ProcessId target) = 0;

  // The processes that it collects from now.
  virtual std::vector<ProcessId> Running() const = 0;
  // Those in which it could not be started, with the reasons.
  virtual std::map<ProcessId, absl::Status> Refused() const = 0;
  // Those in which something is left out. Not known for runs in another program.
  virtual std::map<ProcessId, std::vector<LeftOut>> LeftOutOf() const { return {}; }
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
  virtual std::shared_ptr<SessionRun> NewRun(RunSpec spec,
                                             std::shared_ptr<RecordRouter> router) = 0;
  // The session that runs on all processes; none if there is none, or if the runner
  // tracks arriving processes itself.
  virtual SessionId AllOwner() const { return {}; }

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
