#include "userspace/watch/policy.h"

#include <fnmatch.h>

#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

// Deeper than any real process tree; ends a walk through a table that loops.
constexpr int kMaxAncestors = 4096;

absl::string_view LastPart(absl::string_view path) {
  size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

bool Matches(const std::string& glob, absl::string_view text) {
  return !text.empty() && fnmatch(glob.c_str(), std::string(text).c_str(), 0) == 0;
}

bool DescendsFrom(pid_t process, pid_t ancestor, const ParentLookup& parent_of) {
  for (int i = 0; i < kMaxAncestors && process > 0; ++i) {
    if (process == ancestor) return true;
    process = parent_of(process);
  }
  return false;
}

}  // namespace

bool MatchesProcess(absl::string_view glob, const ProcessInfo& process) {
  std::string pattern(glob);
  if (Matches(pattern, process.comm) || Matches(pattern, process.executable) ||
      Matches(pattern, LastPart(process.executable))) {
    return true;
  }
  // A script is known by its own name, not by its interpreter's.
  for (size_t i = 0; i < process.arguments.size() && i < 2; ++i) {
    if (Matches(pattern, LastPart(process.arguments[i]))) return true;
  }
  return false;
}

pid_t ReadParent(pid_t pid) {
  auto info = ReadProcessInfo(pid);
  return info.ok() ? info->parent : 0;
}

PolicyDecision Decide(const PolicyRules& rules, const ProcessInfo& process,
                      const ParentLookup& parent_of) {
  for (const std::string& glob : rules.deny) {
    if (MatchesProcess(glob, process)) {
      return {false, absl::StrCat("denied by --deny '", glob, "'")};
    }
  }
  if (rules.only_uid.has_value() && process.uid != *rules.only_uid) {
    return {false, absl::StrCat("runs as uid ", process.uid, ", not as --uid ",
                                *rules.only_uid)};
  }
  if (rules.only_descendants_of.has_value() &&
      !DescendsFrom(process.id.pid, *rules.only_descendants_of, parent_of)) {
    return {false, "was not started by the profiled command"};
  }
  if (rules.allow.empty()) return {true, "no --process restricts the choice"};
  for (const std::string& glob : rules.allow) {
    if (MatchesProcess(glob, process)) {
      return {true, absl::StrCat("matches --process '", glob, "'")};
    }
  }
  return {false, "matches no --process"};
}

}  // namespace rocattach
