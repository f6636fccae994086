// The processes that the command line of rocattach-watch selects.
#ifndef ROCATTACH_USERSPACE_CLI_OPTIONS_PROCESS_SELECTION_H_
#define ROCATTACH_USERSPACE_CLI_OPTIONS_PROCESS_SELECTION_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/cli/options/watch_arguments.h"

namespace rocattach {

// "1000", or the name of a user.
absl::StatusOr<uid_t> ParseUser(const std::string& user);

// Fills in `args->watcher` from -p, -n, --uid and the options that exclude each other.
// A name after -p is the old spelling of -n, and causes a warning.
absl::Status InterpretSelection(WatchArguments* args);

// For a command that does not exist: an error if its first word was meant as an option
// or as a command of rocattach, such as "auto" or "report"; else OK.
absl::Status CheckMeaning(const CLI::App& app, const WatchArguments& args);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_OPTIONS_PROCESS_SELECTION_H_
