// Decides at which windows to attach, before anything is done to their processes.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_WINDOW_POLICY_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_WINDOW_POLICY_H_

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "userspace/watch/budget.h"
#include "userspace/watch/crash_breaker.h"
#include "userspace/watch/policy.h"
#include "userspace/watch/windows/window.h"

namespace rocattach {

struct WindowPolicyOptions {
  PolicyRules rules;
  bool attach = false;   // --auto; else windows are only reported
  bool dry_run = false;  // report what would be done
  bool hold = true;      // false: the user has switched holding off
  BudgetLimits budget;
  // Why another process cannot be attached now; empty if it can. May be null.
  std::function<std::string()> full;
  // Null: processes that crash after an attach change nothing. Must outlive the policy.
  CrashBreaker* crash_breaker = nullptr;
};

// Thread-safe: immutable.
class WindowPolicy {
 public:
  explicit WindowPolicy(WindowPolicyOptions options);

  const PolicyRules& rules() const { return options_.rules; }
  // False if every window is only reported.
  bool attaches() const { return options_.attach && !options_.dry_run; }
  // The reason to attach, which may be empty, if the event alone shows that the service
  // is to attach at this window.
  std::optional<std::string> AcceptFromEvent(const rocattach_event& event) const;
  // Fills in verdict and reason of a window at which not to attach; returns true then.
  // Reading the process takes some time: `before_slow_read` is called first.
  bool ShouldSkip(Window* window, absl::FunctionRef<void()> before_slow_read) const;
  // True if the rules allow attaching to a process that has opened no window yet. Reads
  // its arguments, which are in its memory: it can block the caller.
  bool Allows(pid_t pid) const;
  // The same without waiting: true if only the arguments can decide.
  bool MayAllow(pid_t pid) const;

 private:
  // Refuses the window if a budget of the service is used up; true if so.
  bool RefuseOverBudget(Window* window) const;
  // Skips the window if its mode alone excludes an attach; true if so.
  bool SkipByMode(Window* window) const;
  // True, with verdict and reason, if a window that the rules allow cannot be served.
  bool SkipUnserved(Window* window) const;
  // False, with verdict and reason, if the rules forbid attaching.
  bool RulesAllow(Window* window, absl::FunctionRef<void()> before_slow_read) const;
  // Skips the window if the crash breaker stops attaching to the process; true if so.
  bool SkipCrashing(Window* window, absl::FunctionRef<void()> before_slow_read) const;
  // The rule because of which the kernel did not hold the process.
  std::string KernelDenial(Window* window) const;

  const WindowPolicyOptions options_;
  const bool reads_process_;  // some rule needs more than the event contains
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_WINDOW_POLICY_H_
