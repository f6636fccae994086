// Counters that the SDK of a process lacks. What the user has named must be there; what
// sets and blocks contain is left out.
#ifndef ROCATTACH_USERSPACE_SESSION_MISSING_COUNTERS_H_
#define ROCATTACH_USERSPACE_SESSION_MISSING_COUNTERS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "userspace/session/compiled_plan.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// The counter that a collector has refused a plan for; empty if that is not the reason.
// `message` is its answer, which is not trusted: it may be any word.
std::string MissingCounter(absl::string_view message);

// Removes all optional counters and metrics that need this counter on a GPU of the
// plan. False, with nothing changed, if something that needs it was named by the user,
// or if nothing needs it, or nothing else is left.
bool LeaveOut(const std::string& counter, const CompiledPlan& plan,
              std::vector<FilterSpec>* filters);

// These counters as a part of what a plan leaves out.
LeftOut LeftOutCounters(const std::vector<std::string>& counters);

// What the catalogue knows of its versions, to be appended to an error: "; it is in
// rocprofiler-sdk from version 1.1 on". Empty if every version that can be used has it.
std::string SinceText(const std::string& counter, const CompiledPlan& plan);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_MISSING_COUNTERS_H_
