// Signals and exit statuses, for programs that run a command or record until they are
// stopped.
#ifndef ROCATTACH_USERSPACE_CLI_COMMON_COMMAND_RUN_H_
#define ROCATTACH_USERSPACE_CLI_COMMON_COMMAND_RUN_H_

#include "absl/status/status.h"
#include "userspace/service/watcher.h"

namespace rocattach {

// As used by shells, env and nohup.
inline constexpr int kExitCannotExecute = 126;
inline constexpr int kExitNoCommand = 127;

// While it exists (at most one does), SIGINT, SIGTERM and SIGHUP end the watcher's run.
class StopSignals {
 public:
  explicit StopSignals(Watcher* watcher);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
};

// Ends the program with this status if processes keep threads of the run waiting, since
// nothing may be destroyed then. All other work must be done before this call.
void ExitIfKept(const Watcher& watcher, int status);

// The same if threads are known to be kept waiting.
[[noreturn]] void ExitWithKept(int status);

// The exit status for a command that cannot be run, from exec's reason.
int CommandExit(const absl::Status& status);

// The command's exit status as a shell reports it (128 + signal if it was killed); 0 if
// there was no command, or it is still running.
int ExitStatusOfCommand(const RunResult& result);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_COMMON_COMMAND_RUN_H_
