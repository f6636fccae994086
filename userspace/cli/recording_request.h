// One recording of running processes, or of a command: what `rocattach attach` and
// `rocattach profile` have in common.
#ifndef ROCATTACH_USERSPACE_CLI_RECORDING_REQUEST_H_
#define ROCATTACH_USERSPACE_CLI_RECORDING_REQUEST_H_

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

struct RecordingRequest {
  std::vector<pid_t> pids;
  bool children = false;  // their descendants as well, later ones included
  bool wait = false;      // wait for processes that have not started their runtime
  uint32_t wait_timeout_msec = 0;
  bool announce = false;       // print a line in each process's standard error
  bool detach_on_eof = false;  // detach at the end of standard input, not on Enter
  int verbosity = 0;
  // The recording is made for its counters: without any it has failed.
  bool needs_counters = false;
  // Processes the recordings once they are complete; false: it failed, and has reported
  // the reason. May be null.
  std::function<bool(const std::vector<std::string>& files)> afterwards;
};

// --wait, --wait-timeout-msec and --announce.
void AddAttachOptions(CLI::App* app, RecordingRequest* run);

// Fills in `watch->watcher` from the parsed options; `name` is the command's name as it
// will be in the recording.
absl::Status InterpretAttach(const CLI::App& app, const char* name,
                             WatchArguments* watch);

// Records the processes until they have ended, or the user or the duration ends the
// recording. Returns the exit status.
int RecordRunning(const RecordingRequest& run, WatchArguments* watch);

// Runs `watch->command` and records what it and its descendants do. Returns the
// command's exit status, or that of the recording if the command's is 0.
int RecordCommand(const RecordingRequest& run, WatchArguments* watch);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_RECORDING_REQUEST_H_
