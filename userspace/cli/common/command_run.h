// What programs that run a command, or record until they are stopped, have in common:
// signals and exit statuses.
#ifndef ROCATTACH_USERSPACE_CLI_COMMON_COMMAND_RUN_H_
#define ROCATTACH_USERSPACE_CLI_COMMON_COMMAND_RUN_H_

#include "absl/status/status.h"
#include "userspace/service/watcher.h"

namespace rocattach {

// The same as those of shells, env and nohup.
inline constexpr int kExitCannotExecute = 126;
inline constexpr int kExitNoCommand = 127;

// While it exists, SIGINT, SIGTERM and SIGHUP end the watcher's run. One at a time.
class StopSignals {
 public:
  explicit StopSignals(Watcher* watcher);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
};

// Ends the program with this status if processes keep threads of the run waiting:
// nothing may be destroyed then. What is to be done before has to be done.
void ExitIfKept(const Watcher& watcher, int status);

// The same where that is known.
[[noreturn]] void ExitWithKept(int status);

// The exit status for a command that cannot be run, from exec's reason.
int CommandExit(const absl::Status& status);

// The command's own exit status as a shell has it (128 + signal if it was killed); 0 if
// there was none, or it still runs.
int ExitStatusOfCommand(const RunResult& result);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_COMMON_COMMAND_RUN_H_
