#include "userspace/watch/windows/window_policy.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "injector/process/thread_status.h"
#include "userspace/base/clock.h"
#include "userspace/base/file.h"
#include "userspace/base/process.h"

namespace rocattach {
WindowPolicy::WindowPolicy(WindowPolicyOptions options)
    : options_(std::move(options)),
      reads_process_(!options_.rules.allow.empty() || !options_.rules.deny.empty() ||
                     options_.rules.only_uid.has_value()) {}

std::optional<std::string> WindowPolicy::AcceptFromEvent(
    const rocattach_event& event) const {
  if (event.mode != ROCATTACH_WINDOW_HELD || !attaches()) return std::nullopt;
  if (options_.full && !options_.full().empty()) return std::nullopt;
  if (options_.crash_breaker != nullptr && options_.crash_breaker->tripped()) {
    return std::nullopt;
  }
  if (!reads_process_) return "";
  if (event.pid != event.tid) return std::nullopt;
  auto decision = DecideByName(options_.rules, event.uid, CommOf(event));
  if (!decision.has_value() || !decision->allowed) return std::nullopt;
  return std::move(decision->reason);
}

bool WindowPolicy::Allows(pid_t pid) const {
  if (!reads_process_) return true;
  auto info = ReadProcessInfo(pid);
  return info.ok() && Decide(options_.rules, *info).allowed;
}

bool WindowPolicy::MayAllow(pid_t pid) const {
  if (!reads_process_) return true;
  const auto status = ReadThreadStatus(pid, pid);
  auto comm = ReadFile(absl::StrCat("/proc/", pid, "/comm"), ROCATTACH_COMM_BYTES);
  const auto executable = ReadExecutable(pid);
  if (!status.ok() || !comm.ok() || !executable.ok()) return true;
  const auto decision =
      DecideByName(options_.rules, status->file_uid,
                   absl::StripTrailingAsciiWhitespace(*comm), *executable);
  return !decision.has_value() || decision->allowed;
}

bool WindowPolicy::RefuseOverBudget(Window* window) const {
  const rocattach_event& event = window->event;
  std::string why;
  if (event.mode == ROCATTACH_WINDOW_OVER_BUDGET) {
    why = BudgetRefusal(event.over_budget.budget, event.charged_uid,
                        event.over_budget.refused, options_.budget);
  } else if (event.mode == ROCATTACH_WINDOW_HELD ||
             event.mode == ROCATTACH_WINDOW_SIGNALLED) {
    if (attaches() && options_.full) why = options_.full();
  }
  if (why.empty()) return false;
  window->verdict = Verdict::kRefused;
  window->outcome.reason = AttachReason::kOverBudget;
  window->reason = std::move(why);
  return true;
}

std::string WindowPolicy::KernelDenial(Window* window) const {
  window->process = ProcessOf(window->event);
  PolicyDecision decision = Decide(options_.rules, window->process);
  return decision.allowed ? "denied in the kernel" : decision.reason;
}

bool WindowPolicy::SkipByMode(Window* window) const {
  switch (window->event.mode) {
    case ROCATTACH_WINDOW_DENIED:
      window->reason = KernelDenial(window);
      return true;
    case ROCATTACH_WINDOW_UNRELATED:
      window->reason = "was not started by the profiled command";
      return true;
    case ROCATTACH_WINDOW_PAUSED:
      window->reason = "attaching is paused";
      return true;
    case ROCATTACH_WINDOW_SHARED:
      SetSharedMemoryVerdict(static_cast<pid_t>(window->event.shared.owner_pid),
                             window->event.shared.is_vfork_child != 0, window);
      return true;
    default:
      return false;
  }
}

bool WindowPolicy::RulesAllow(Window* window,
                              absl::FunctionRef<void()> before_slow_read) const {
  if (!reads_process_) return true;
  const rocattach_event& event = window->event;
  std::optional<PolicyDecision> decision;
  if (event.pid == event.tid) {
    decision = DecideByName(options_.rules, event.uid, CommOf(event));
    if (!decision.has_value()) {
      auto executable = ReadExecutable(static_cast<pid_t>(event.pid));
      if (executable.ok()) {
        decision = DecideByName(options_.rules, event.uid, CommOf(event), *executable);
      }
    }
  }
  if (!decision.has_value()) {
    before_slow_read();
    auto info = ReadProcessInfo(static_cast<pid_t>(event.pid));
    if (!info.ok()) {
      SetUnreadableVerdict(info.status(), window);
      return false;
    }
    window->process = *std::move(info);
    decision = Decide(options_.rules, window->process);
  }
  window->reason = decision->reason;
  return decision->allowed;
}

bool WindowPolicy::SkipUnserved(Window* window) const {
  if (!options_.attach) {
    window->reason = "only watching; --auto attaches";
    return true;
  }
  if (options_.dry_run) {
    window->reason = "dry run: would attach";
    return true;
  }
  if (window->event.mode == ROCATTACH_WINDOW_UNSERVED) {
    window->verdict = Verdict::kMissed;
    window->reason =
        "the service was stopped (SIGSTOP, ^Z or a frozen control group), and a "
        "stopped service holds no process";
    return true;
  }
  if (window->event.mode == ROCATTACH_WINDOW_REPORTED) {
    window->verdict = Verdict::kMissed;
    window->reason =
        options_.hold ? "the thread could not be held at hsa_init; start the service "
                        "before the process, or see 'rocattach doctor' for the hold"
                      : "holding is switched off (--hold none), and a process that is "
                        "not held cannot be attached to";
    return true;
  }
  return false;
}

bool WindowPolicy::SkipCrashing(Window* window,
                                absl::FunctionRef<void()> before_slow_read) const {
  CrashBreaker* breaker = options_.crash_breaker;
  if (breaker == nullptr || !breaker->tripped()) return false;
  before_slow_read();
  auto executable = ReadExecutable(static_cast<pid_t>(window->event.pid));
  std::string why = breaker->WhyNot(executable.ok() ? *executable : "", BootNs());
  if (why.empty()) return false;
  window->reason = std::move(why);
  return true;
}

bool WindowPolicy::ShouldSkip(Window* window,
                              absl::FunctionRef<void()> before_slow_read) const {
  if (RefuseOverBudget(window)) return true;
  window->verdict = Verdict::kPassed;
  if (SkipByMode(window) || !RulesAllow(window, before_slow_read) ||
      SkipUnserved(window) || SkipCrashing(window, before_slow_read)) {
    return true;
  }
  window->verdict = Verdict::kOpen;
  return false;
}

}  // namespace rocattach
