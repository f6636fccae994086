// Metrics and profiles that are served or pushed, and names of pods and jobs in them.
#ifndef ROCATTACH_USERSPACE_CLI_OPTIONS_TELEMETRY_OPTIONS_H_
#define ROCATTACH_USERSPACE_CLI_OPTIONS_TELEMETRY_OPTIONS_H_

#include "absl/status/status.h"
#include "userspace/cli/options/watch_arguments.h"

namespace rocattach {

// Adds what is served and pushed, after --auto has been added.
void AddMetrics(CLI::App* app, WatchArguments* args);

// Adds where names of pods and jobs come from.
void AddWorkloads(CLI::App* app, WatchArguments* args);

// Fills in what `args->watcher` serves and pushes. INVALID_ARGUMENT for an address that
// cannot be used, or an option without one that it needs.
absl::Status InterpretMetrics(const CLI::App& app, WatchArguments* args);

// Fills in `args->watcher.workload_sources` and `gpu_roots`.
void InterpretWorkloads(WatchArguments* args);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_OPTIONS_TELEMETRY_OPTIONS_H_
