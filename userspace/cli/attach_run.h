// One recording of running processes, or of a command: what `rocattach attach` and
// `rocattach profile` have in common.
#ifndef ROCATTACH_USERSPACE_CLI_ATTACH_RUN_H_
#define ROCATTACH_USERSPACE_CLI_ATTACH_RUN_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "userspace/cli/options/watch_arguments.h"

namespace CLI {
class App;
}

namespace rocattach {

struct AttachRun {
  std::vector<pid_t> pids;
  bool children = false;  // their descendants as well, later ones included
  bool wait = false;      // for those that have not started their runtime
  uint32_t wait_timeout_msec = 0;
  bool announce = false;       // in the standard error of each process
  bool detach_on_eof = false;  // of standard input, instead of on Enter
  int verbosity = 0;
  // Counters are what the recording is for: without any it has failed.
  bool needs_counters = false;
  // What is done with the recordings once they are complete; false: it failed, and has
  // said why. May be null.
  std::function<bool(const std::vector<std::string>& files)> afterwards;
};

// --wait, --wait-timeout-msec and --announce.
void AddAttachOptions(CLI::App* app, AttachRun* run);

// Fills in `watch->watcher` from the options that were parsed; `name` is the command as
// the recording will have it.
absl::Status InterpretAttach(const CLI::App& app, const char* name,
                             WatchArguments* watch);

// Records the processes until they have ended, or the user or the duration ends it.
// Returns the exit status.
int RecordRunning(const AttachRun& run, WatchArguments* watch);

// Runs `watch->command` and records what it and its descendants do. Returns the
// command's exit status, or that of the recording if the command's is 0.
int RecordCommand(const AttachRun& run, WatchArguments* watch);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_ATTACH_RUN_H_
