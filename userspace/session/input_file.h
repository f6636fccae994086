// rocprofv3's input files: jobs with counters, filters and what to trace.
#ifndef ROCATTACH_USERSPACE_SESSION_INPUT_FILE_H_
#define ROCATTACH_USERSPACE_SESSION_INPUT_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/counters/document.h"
#include "userspace/counters/pass_planner.h"
#include "userspace/session/collection_period.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// One entry of "jobs". Where rocprofv3 runs the program once per job, all jobs'
// counters are collected in one run here.
struct InputJob {
  std::vector<CounterNames> groups;  // "pmc" is one group
  // "pmc_groups": each is a separate pass, for `group_interval` dispatches of a kernel.
  bool keep_groups = false;
  uint64_t group_interval = 1;
  std::vector<std::string> kernel_include, kernel_exclude;
  std::vector<NumberRange> iterations;  // "kernel_iteration_range"
  std::vector<CollectionPeriod> periods;
  // The *_trace and stats keys that are true, in the file's order.
  std::vector<std::string> traces;
  std::vector<std::string> extra_counters;  // files
  // Keys without a meaning here (such as output names and formats): reported to the
  // user, but no reason to refuse.
  std::vector<std::string> ignored;
};

// A map with a list "jobs" (JSON or YAML), or one job without that list. Errors name
// `source`, the job and the key.
absl::StatusOr<std::vector<InputJob>> ParseInput(const Document& document,
                                                 absl::string_view source);

// The older text form: lines "pmc: A B", one job each; # begins a comment.
absl::StatusOr<std::vector<InputJob>> ParseTextInput(absl::string_view text,
                                                     absl::string_view source);

// By the file name's extension: .json, .txt, else YAML.
absl::StatusOr<std::vector<InputJob>> ReadInputFile(const std::string& path);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_INPUT_FILE_H_
