#include "userspace/watch/crash_breaker.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "userspace/base/human.h"

namespace rocattach {
namespace {

// If more processes start in five seconds, only some of them are watched.
constexpr size_t kMostAttached = 4096;

constexpr int kFaults[] = {SIGSEGV, SIGBUS,  SIGILL, SIGFPE,
                           SIGABRT, SIGTRAP, SIGSYS, SIGXFSZ};

bool IsFault(int signal) {
  return std::find(std::begin(kFaults), std::end(kFaults), signal) != std::end(kFaults);
}

}  // namespace

void CrashBreaker::Forget(uint64_t now_ns) {
  std::erase_if(attached_, [now_ns](const auto& item) {
    return item.second.time_ns + kWatchedNs < now_ns;
  });
  std::erase_if(crashes_,
                [now_ns](const auto& item) { return item.second.until_ns < now_ns; });
  tripped_ = !crashes_.empty();
}

void CrashBreaker::OnAttached(const ProcessId& process, const std::string& executable,
                              uint64_t now_ns) {
  if (executable.empty()) return;
  absl::MutexLock lock(&mutex_);
  Forget(now_ns);
  if (attached_.size() < kMostAttached) attached_[process] = {executable, now_ns};
}

void CrashBreaker::OnExit(const ProcessId& process, int wait_status, uint64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  auto attached = attached_.extract(process);
  Forget(now_ns);
  if (attached.empty() || !WIFSIGNALED(wait_status)) return;
  const Attached& what = attached.mapped();
  const int signal = WTERMSIG(wait_status);
  if (!IsFault(signal) || what.time_ns + kWatchedNs < now_ns) return;
  crashes_[what.executable] = {
      signal, process.pid, now_ns - std::min(now_ns, what.time_ns), now_ns + kPauseNs};
  tripped_ = true;
}

std::string CrashBreaker::WhyNot(const std::string& executable, uint64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  Forget(now_ns);
  auto crash = crashes_.find(executable);
  const bool all = crashes_.size() >= kMostCrashes;
  if (crash == crashes_.end() && !all) return "";
  if (crash == crashes_.end()) crash = crashes_.begin();
  const Crash& seen = crash->second;
  const char* name = sigabbrev_np(seen.signal);
  std::string why = absl::StrCat(
      all ? absl::StrCat("processes of ", crashes_.size(),
                         " executables crashed right after they were attached to; one "
                         "of them: ")
          : "",
      "process ", seen.pid, " of ", crash->first, " was killed by SIG",
      name != nullptr ? name : "?", " ", HumanDuration(seen.after_ns),
      " after it was attached to; ",
      all ? "no process" : "no process of this executable", " is attached to for ",
      HumanDuration(seen.until_ns - now_ns),
      " (--no-crash-breaker attaches in spite of that)");
  return why;
}

}  // namespace rocattach
