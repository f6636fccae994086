// Which processes may be touched. Decided before anything is done to them.
#ifndef ROCATTACH_USERSPACE_WATCH_POLICY_H_
#define ROCATTACH_USERSPACE_WATCH_POLICY_H_

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "userspace/base/process.h"

namespace rocattach {

// What the user asked for. An empty allow list allows everything; a deny always wins.
struct PolicyRules {
  // Shell globs against the command name, the executable's path and its last part.
  std::vector<std::string> allow;
  std::vector<std::string> deny;
  std::optional<uid_t> only_uid;
  // Only processes below this one (the command that the watcher started).
  std::optional<pid_t> only_descendants_of;
};

// The answer, and the reason in words for the verdict.
struct PolicyDecision {
  bool allowed = false;
  std::string reason;
};

// The parent of a process, 0 if it is gone: ReadParent, or a table in tests.
using ParentLookup = std::function<pid_t(pid_t)>;
pid_t ReadParent(pid_t pid);

PolicyDecision Decide(const PolicyRules& rules, const ProcessInfo& process,
                      const ParentLookup& parent_of = ReadParent);

// True if `glob` matches the process's command name, executable path or its last part.
bool MatchesProcess(absl::string_view glob, const ProcessInfo& process);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_POLICY_H_
