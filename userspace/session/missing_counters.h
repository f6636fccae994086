// Counters that the SDK of a process lacks. Those that the user has named must be
// there; those from sets and blocks are left out.
#ifndef ROCATTACH_USERSPACE_SESSION_MISSING_COUNTERS_H_
#define ROCATTACH_USERSPACE_SESSION_MISSING_COUNTERS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "userspace/session/compiled_plan.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// Adds to the error with which a plan was refused that a GPU lacks this counter.
void SetMissingCounter(absl::string_view counter, absl::Status* refusal);
// That counter; empty if the plan was refused for another reason.
std::string MissingCounter(const absl::Status& refusal);

// Removes all optional counters and metrics that need this counter on a GPU of the
// plan. False, with nothing changed, if something that needs it was named by the user,
// or if nothing needs it, or nothing else is left.
bool LeaveOut(const std::string& counter, const CompiledPlan& plan,
              std::vector<FilterSpec>* filters);

// An entry for these counters in what a plan leaves out.
LeftOut LeftOutCounters(const std::vector<std::string>& counters);

// The SDK version that has the counter, for the end of an error message: "; it is in
// rocprofiler-sdk from version 1.1 on". Empty if every version that can be used has it.
std::string SinceText(const std::string& counter, const CompiledPlan& plan);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_MISSING_COUNTERS_H_
