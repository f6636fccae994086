// Decides which processes may be attached to, before anything is done to them.
#ifndef ROCATTACH_USERSPACE_WATCH_POLICY_H_
#define ROCATTACH_USERSPACE_WATCH_POLICY_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "userspace/base/process.h"

namespace rocattach {

// The user's rules. An empty allow list allows everything; a deny always wins.
struct PolicyRules {
  // Shell globs for the command name, the executable's path and its last part.
  std::vector<std::string> allow;
  std::vector<std::string> deny;
  std::optional<uid_t> only_uid;
};

// The decision, and the reason in words for the verdict.
struct PolicyDecision {
  bool allowed = false;
  std::string reason;
};

PolicyDecision Decide(const PolicyRules& rules, const ProcessInfo& process);

// The same from facts that need no inspection of the process: its effective user, its
// command name (that of its first thread), and its executable's path if not empty.
// Unset if these are not enough.
std::optional<PolicyDecision> DecideByName(const PolicyRules& rules, uid_t uid,
                                           absl::string_view comm,
                                           absl::string_view executable = {});

// True if `glob` is a plain command name, as the kernel keeps it, without wildcards.
bool IsPlainCommand(absl::string_view glob);

// True if `glob` matches the process's command name, executable path or its last part.
bool MatchesProcess(absl::string_view glob, const ProcessInfo& process);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_POLICY_H_
