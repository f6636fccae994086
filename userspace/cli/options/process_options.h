// Options that select processes, control how they are entered and captured, and limit
// what that may cost them and the service.
#ifndef ROCATTACH_USERSPACE_CLI_OPTIONS_PROCESS_OPTIONS_H_
#define ROCATTACH_USERSPACE_CLI_OPTIONS_PROCESS_OPTIONS_H_

#include "userspace/cli/options/watch_arguments.h"

namespace rocattach {

// Adds the options that select processes.
void AddSelection(CLI::App* app, WatchArguments* args);

// Adds --library and --collector.
void AddLibraries(CLI::App* app, WatchArguments* args);

// Adds --kfd-topology.
void AddTopology(CLI::App* app, WatchArguments* args);

// Adds the time limits, --capture, --ring-slots, --no-recording, and the libraries.
void AddEntryOptions(CLI::App* app, WatchArguments* args);

// Adds --backend.
void AddBackend(CLI::App* app, WatchArguments* args);

// Adds the limits of the time that a process may be kept waiting.
void AddTimeLimits(CLI::App* app, WatchArguments* args);

// Adds --cpu-budget and --disk-budget, the limits of the service itself.
void AddLoadBudget(CLI::App* app, WatchArguments* args);

// Adds the limits of the cost of one user's processes; see docs/security.md.
void AddBudgets(CLI::App* app, WatchArguments* args);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_OPTIONS_PROCESS_OPTIONS_H_
