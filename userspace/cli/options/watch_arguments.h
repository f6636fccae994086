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
#include "userspace/control/service_channel.h"
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
  std::string rotate_age;            // --rotate-age, as text
  std::vector<std::string> formats;  // to convert to when a process ends
  std::vector<std::string> command;
  std::vector<std::string> processes;  // -p: process IDs, or globs in the old spelling
  std::vector<ProcessId> named;        // the process IDs among them
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
  // One session for each run of the command; the first is also in `watcher`. There are
  // several only with a command and an input file whose jobs have different filters.
  std::vector<SessionRequest> runs;
  std::string socket = kDefaultControlSocket;
  bool socket_named = false;   // --socket was given: creating it must succeed
  bool socket_wanted = false;  // create one if possible
};

// Adds all options; they write into `arguments`, which must outlive the parsing.
void AddWatchOptions(CLI::App* app, WatchArguments* arguments);

// Adds the subset that `rocattach attach` has too: what is recorded and where,
// and how processes are entered.
void AddRecordingOptions(CLI::App* app, WatchArguments* arguments);

// Adds the subset for `rocattach profile`, which has options of its own for what is
// recorded and where.
void AddProfileEntryOptions(CLI::App* app, WatchArguments* arguments);

// Call after parsing: fills in `arguments->watcher`. Checks what is to be measured and
// the command before any process is touched. An error is NOT_FOUND or PERMISSION_DENIED
// if the command cannot be run, else INVALID_ARGUMENT.
absl::Status InterpretWatchArguments(const CLI::App& app, int argc, char** argv,
                                     WatchArguments* arguments);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_OPTIONS_WATCH_ARGUMENTS_H_
