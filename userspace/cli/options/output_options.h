// Options of the output: names, rotation, conversion, messages.
#ifndef ROCATTACH_USERSPACE_CLI_OPTIONS_OUTPUT_OPTIONS_H_
#define ROCATTACH_USERSPACE_CLI_OPTIONS_OUTPUT_OPTIONS_H_

#include "absl/status/status.h"
#include "userspace/cli/options/watch_arguments.h"

namespace rocattach {

// Adds --output-*, --json and --quiet.
void AddOutput(CLI::App* app, WatchArguments* args);

// Adds --rotate-* and --keep-*.
void AddRotation(CLI::App* app, WatchArguments* args);

// Adds --log-format.
void AddLogFormat(CLI::App* app, WatchArguments* args);

// INVALID_ARGUMENT if a recording is to be written to a terminal.
absl::Status CheckOutput(const WatcherOptions& watcher);

// Fills in `args->watcher.rotation`. INVALID_ARGUMENT if it is out of range, or cannot
// be combined with the other options of the output.
absl::Status InterpretRotation(WatchArguments* args);

// INVALID_ARGUMENT if there will be no recording that --output-format could convert.
absl::Status CheckConversion(const WatchArguments& args);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_OPTIONS_OUTPUT_OPTIONS_H_
