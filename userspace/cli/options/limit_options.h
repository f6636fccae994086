// What the processes of users, and the service itself, may cost.
#ifndef ROCATTACH_USERSPACE_CLI_OPTIONS_LIMIT_OPTIONS_H_
#define ROCATTACH_USERSPACE_CLI_OPTIONS_LIMIT_OPTIONS_H_

#include "userspace/cli/options/watch_arguments.h"

namespace rocattach {

// Adds how long a process may be kept waiting.
void AddTimeLimits(CLI::App* app, WatchArguments* args);

// Adds --cpu-budget and --disk-budget, the limits of the service itself.
void AddLoadBudget(CLI::App* app, WatchArguments* args);

// Adds the limits of what the processes of one user may cost; see docs/security.md.
void AddBudgets(CLI::App* app, WatchArguments* args);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_OPTIONS_LIMIT_OPTIONS_H_
