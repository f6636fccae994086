// Waits for the end of a run.
#ifndef ROCATTACH_USERSPACE_SERVICE_RUN_LOOP_H_
#define ROCATTACH_USERSPACE_SERVICE_RUN_LOOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "userspace/base/wake_event.h"
#include "userspace/service/child_command.h"
#include "userspace/watch/budget.h"

namespace rocattach {

// Why a run ended.
struct RunEnd {
  // Exit status as from wait(2); unset without a command, or while it still runs.
  std::optional<int> command_status;
  bool interrupted = false;
  // True if the duration ended before the command.
  bool command_runs_on = false;
};

// A run ends with its command, with its duration, or when a stop is requested. With
// neither command nor duration it ends only when a stop is requested.
class RunLoop {
 public:
  // Events during the wait. Each function may be null.
  struct Events {
    // Called at least twice a second, and whenever the loop wakes up.
    std::function<void()> on_tick;
    // While it returns true, ticks are at most 0.1 s apart.
    std::function<bool()> awaits_processes;
    // Returns when the duration began, in boot time, given the current time; 0: not
    // yet. Null: it counts from the start.
    std::function<uint64_t(uint64_t now_ns)> duration_began;
    // Signalled when duration_began() may have changed. Must outlive the wait.
    const WakeEvent* changed = nullptr;
    // on_watched() is called, and must end it, when this is readable; -1: none.
    int watched_fd = -1;
    std::function<void()> on_watched;
  };

  // An error if the process had no descriptor left.
  absl::Status status() const { return stop_.status(); }

  // Starts the command with which the run ends. Before Wait(); at most once.
  absl::Status StartCommand(const std::vector<std::string>& command,
                            const DescriptorLimit& descriptors,
                            ChildCommand::Output output);
  // True if the command runs, as far as is known.
  bool has_command() const { return command_ != nullptr; }

  // Waits for the end of the run, for `duration_ns` at most (0: no limit). Reaps
  // processes that the command leaves behind. After a wait that ended with the
  // duration, another call waits for the command to end.
  RunEnd Wait(uint64_t duration_ns, const Events& events);

  // Ends the wait; async-signal-safe. A command is sent `forward_signal` (0: it has
  // already received its signal) and waited for; a second request does not wait.
  void RequestStop(int forward_signal);
  // True if a stop has been requested since the wait ended, or since the last call.
  bool StopRequestedAgain() { return stop_.WaitFor(0); }

 private:
  // Handles a request to stop; returns true to stop at once.
  bool StopsNow(RunEnd* end);

  WakeEvent stop_;
  std::atomic<int> forward_signal_ = 0;
  std::unique_ptr<ChildCommand> command_;  // until it has been waited for
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_RUN_LOOP_H_
