// The command line of rocattach-watch.
#ifndef ROCATTACH_USERSPACE_CLI_OPTIONS_WATCH_ARGUMENTS_H_
#define ROCATTACH_USERSPACE_CLI_OPTIONS_WATCH_ARGUMENTS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "userspace/base/process.h"
#include "userspace/cli/options/session_arguments.h"
#include "userspace/cli/terminal/log_line.h"
#include "userspace/control/control_client.h"
#include "userspace/service/watcher.h"

namespace CLI {
class App;
}

namespace rocattach {

struct WatchArguments {
  WatcherOptions watcher;
  bool json = false;
  LogFormat log_format = LogFormat::kText;
  bool quiet = false;
  bool no_recording = false;
  std::string rotate_age;            // as it was given
  std::vector<std::string> formats;  // to convert to when a process ends
  std::vector<std::string> command;
  std::vector<std::string> processes;  // -p: process IDs, or globs in the old spelling
  std::vector<ProcessId> named;        // those of them that are process IDs
  std::string cgroup;                  // --cgroup: a directory or a group's path
  std::string user;                    // --uid: a number or a name
  std::string hold_mode = "yielding";
  std::string capture = "auto";
  std::string backend = "auto";
  std::string metrics_listen;  // --metrics-listen; empty: not given
  double metrics_counters_seconds = 10;
  std::string otlp_endpoint;  // --otlp-endpoint; empty: not given
  std::string pod_resources;  // --pod-resources; empty: not given
  double otlp_interval_seconds = 0;
  std::string profile_push;  // --profile-push; empty: not given
  double profile_push_seconds = 60;
  SessionArguments session;
  // What each run of the command collects; the first is in `watcher` already. More than
  // one only with a command, and an input file whose jobs have different filters.
  std::vector<SessionRequest> runs;
  std::string socket = kDefaultControlSocket;
  bool socket_named = false;   // by the option: it must be possible then
  bool socket_wanted = false;  // there is one if possible
};

// Adds all options; they write into `arguments`, which must outlive the parsing.
void AddWatchOptions(CLI::App* app, WatchArguments* arguments);

// Of these, the options that also `rocattach attach` has: what is recorded and where,
// and how processes are entered.
void AddRecordingOptions(CLI::App* app, WatchArguments* arguments);

// And those of `rocattach profile`, which says in its own way what is recorded and
// where.
void AddProfileEntryOptions(CLI::App* app, WatchArguments* arguments);

// After the parsing: fills in `arguments->watcher`. Checks what is to be measured and
// the command before any process is touched. The code of an error is NOT_FOUND or
// PERMISSION_DENIED if the command cannot be run, else INVALID_ARGUMENT.
absl::Status InterpretWatchArguments(const CLI::App& app, int argc, char** argv,
                                     WatchArguments* arguments);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_OPTIONS_WATCH_ARGUMENTS_H_
