// The options that define what a session collects, for rocattach-watch and for
// `rocattach session start`.
#ifndef ROCATTACH_USERSPACE_CLI_OPTIONS_SESSION_ARGUMENTS_H_
#define ROCATTACH_USERSPACE_CLI_OPTIONS_SESSION_ARGUMENTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/counters/catalog.h"
#include "userspace/session/collection_period.h"
#include "userspace/session/session_types.h"

namespace CLI {
class App;
}

namespace rocattach {

constexpr int64_t kMaxDurationMsec = 31'536'000'000;  // a year

struct SessionArguments {
  std::vector<std::vector<std::string>> pmc;
  std::vector<std::string> sets, blocks;
  std::string architecture;  // names are looked up in it; empty: in any that has them
  std::string input;
  std::vector<std::string> extra_counters;  // files
  bool single_pass = false;
  bool counter_instances = false;
  int64_t device_samples_msec = 0;  // 0: counters of dispatches
  std::vector<std::string> gpus;
  std::vector<std::string> include, exclude;
  std::string iterations, dispatches;
  std::vector<std::string> periods;
  std::string period_unit = "sec";
  int64_t duration_msec = 0;
  bool kernel_trace = false, memory_copy_trace = false;
  bool hsa_trace = false, hip_trace = false, marker_trace = false;
  bool memory_allocation_trace = false, scratch_memory_trace = false;
  bool rccl_trace = false;
  bool api_arguments = false;                     // record the arguments of calls
  bool sys_trace = false, runtime_trace = false;  // several traces at once
  bool stats = false;                             // has no effect
  std::vector<std::string> api_functions;
};

// A file with counters, and its contents.
struct CounterText {
  std::string name, text;
};

// The session that the options and the input file specify.
struct SessionSpec {
  std::vector<FilterSpec> filters;  // empty: no session was requested
  std::vector<CollectionPeriod> periods;
  uint64_t duration_ns = 0;
  std::vector<CounterText> counter_files;
  std::vector<std::string> ignored;  // keys of the input file that have no effect here
};

// Returns the architectures of the GPUs that will be measured, as far as known. Called
// only if needed.
using KnownArchitectures = std::function<absl::StatusOr<std::vector<std::string>>()>;

void AddSessionOptions(CLI::App* app, SessionArguments* arguments);

// Reads the named files and checks every name against the catalog, to which it adds the
// definitions in the files. Errors name the wrong option or key. Jobs of an input file
// with different filters or periods need a run each: there is one SessionSpec for each
// run, in the file's order, and at least one.
absl::StatusOr<std::vector<SessionSpec>> InterpretRuns(
    const SessionArguments& arguments, const KnownArchitectures& architectures,
    CounterCatalog* catalog);

// The error for jobs that need several runs where only one is possible.
absl::Status MoreThanOneRun(const std::string& input);

// The same for one run; jobs that need more are an error.
absl::StatusOr<SessionSpec> InterpretSession(const SessionArguments& arguments,
                                             const KnownArchitectures& architectures,
                                             CounterCatalog* catalog);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_OPTIONS_SESSION_ARGUMENTS_H_
