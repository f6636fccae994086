// The verdict of a window whose collector has not armed itself.
#ifndef ROCATTACH_USERSPACE_RECORD_SETTLE_TARGET_H_
#define ROCATTACH_USERSPACE_RECORD_SETTLE_TARGET_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "schemas/stream.pb.h"
#include "userspace/record/target.h"

namespace rocattach {

// Each settles an open verdict, from the collector's report if there is one. True if
// the verdict was open.

// For a process that has ended, or at the end of the recording.
bool SettleAtEnd(Target* target, const v1::ProcessEnd& end);
// For a process that has shut its runtime down and opens its next window before its
// state was read.
bool SettleBeforeReopen(Target* target);
// Settles an attach whose stub has reported why it could not load the collector, or has
// not loaded it in ample time; `has_collector` reads the process, once per window. True
// only if it has settled.
bool SettleIfNotLoaded(Target* target, uint64_t now_ns,
                       absl::FunctionRef<bool(pid_t)> has_collector);
// True if the process maps a collector, or if its mappings cannot be read.
bool HasCollector(pid_t pid);
// True if a process that was not entered at its window, or whose collector was not
// loaded there, may be entered a moment later.
bool MayBeEnteredLater(const v1::WindowEvent& window);
// Settles an attach that has no report `timeout_ns` after its window; true only then.
bool SettleIfOverdue(Target* target, uint64_t now_ns, uint64_t timeout_ns);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_SETTLE_TARGET_H_
