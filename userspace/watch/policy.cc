#include "userspace/watch/policy.h"

#include <fnmatch.h>

#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

absl::string_view LastPart(absl::string_view path) {
  size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

bool Matches(const std::string& glob, absl::string_view text) {
  return !text.empty() && fnmatch(glob.c_str(), std::string(text).c_str(), 0) == 0;
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

PolicyDecision Decide(const PolicyRules& rules, const ProcessInfo& process) {
  for (const std::string& glob : rules.deny) {
    if (MatchesProcess(glob, process)) {
      return {false, absl::StrCat("denied by --deny '", glob, "'")};
    }
  }
  if (rules.only_uid.has_value() && process.uid != *rules.only_uid) {
    return {false, absl::StrCat("runs as uid ", process.uid, ", not as --uid ",
                                *rules.only_uid)};
  }
  if (rules.allow.empty()) return {true, "no --name restricts the choice"};
  for (const std::string& glob : rules.allow) {
    if (MatchesProcess(glob, process)) {
      return {true, absl::StrCat("matches --name '", glob, "'")};
    }
  }
  return {false, "matches no --name"};
}

std::optional<PolicyDecision> DecideByName(const PolicyRules& rules, uid_t uid,
                                           absl::string_view comm,
                                           absl::string_view executable) {
  ProcessInfo process;
  process.comm = std::string(comm);
  process.executable = std::string(executable);
  process.uid = uid;
  PolicyDecision decision = Decide(rules, process);
  if (rules.only_uid.has_value() && uid != *rules.only_uid) return decision;
  for (const std::string& glob : rules.deny) {
    if (MatchesProcess(glob, process)) return decision;
  }
  // Unknown names can only add matches, both of denials and of what is allowed.
  if (!rules.deny.empty() || !decision.allowed) return std::nullopt;
  return decision;
}

bool IsPlainCommand(absl::string_view glob) {
  constexpr size_t kCommandBytes = 15;
  return !glob.empty() && glob.size() <= kCommandBytes &&
         glob.find_first_of("*?[\\/") == absl::string_view::npos;
}

}  // namespace rocattach
