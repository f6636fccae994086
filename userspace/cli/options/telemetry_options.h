// Metrics and profiles that are served or pushed, and names of pods and jobs in them.
#ifndef ROCATTACH_USERSPACE_CLI_OPTIONS_TELEMETRY_OPTIONS_H_
#define ROCATTACH_USERSPACE_CLI_OPTIONS_TELEMETRY_OPTIONS_H_

#include "absl/status/status.h"
#include "userspace/cli/options/watch_arguments.h"

namespace rocattach {

// Adds the options for metrics and profiles. Call after --auto has been added.
void AddMetrics(CLI::App* app, WatchArguments* args);

// Adds the options for the sources of pod and job names.
void AddWorkloads(CLI::App* app, WatchArguments* args);

// Fills in the settings for metrics and profiles in `args->watcher`. INVALID_ARGUMENT
// for an unusable address, or an option without another one that it needs.
absl::Status InterpretMetrics(const CLI::App& app, WatchArguments* args);

// Fills in `args->watcher.workload_sources` and `gpu_roots`.
void InterpretWorkloads(WatchArguments* args);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_OPTIONS_TELEMETRY_OPTIONS_H_
