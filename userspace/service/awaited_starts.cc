#include "userspace/service/awaited_starts.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rocattach {

void AwaitedStarts::Add(const ProcessId& process) {
  absl::MutexLock lock(&mutex_);
  awaited_[process.pid] = {process.start_ticks, functions_.now()};
}

void AwaitedStarts::OnWindow(pid_t pid) {
  absl::MutexLock lock(&mutex_);
  awaited_.erase(pid);
}

bool AwaitedStarts::empty() const {
  absl::MutexLock lock(&mutex_);
  return awaited_.empty();
}

bool AwaitedStarts::HasSettled(RuntimeStart start, Awaited* awaited) const {
  if (start != RuntimeStart::kUnknown) {
    awaited->unknown_since = 0;
    return false;
  }
  const uint64_t now = functions_.now();
  if (awaited->unknown_since == 0) awaited->unknown_since = now;
  return now - awaited->unknown_since >= kLoadingMsec;
}

AwaitedStarts::Changes AwaitedStarts::Poll() {
  Changes changes;
  absl::MutexLock lock(&mutex_);
  for (auto it = awaited_.begin(); it != awaited_.end();) {
    const pid_t pid = it->first;
    Awaited& awaited = it->second;
    // In this order: a runtime that is open and has no window afterwards never had one.
    const auto start = functions_.read_start(pid);
    const auto ticks = functions_.read_start_ticks(pid);
    bool settled = true;
    if (functions_.has_window(pid)) {
      // Its verdict reports the rest.
    } else if (!ticks.ok() || *ticks != awaited.start_ticks || !start.ok()) {
      settled = std::exchange(awaited.gone, true);
      if (settled) {
        changes.given_up[pid] = absl::NotFoundError(absl::StrCat(
            "process ", pid, " has ended without starting its HSA runtime"));
      }
    } else if (*start == RuntimeStart::kStarted || HasSettled(*start, &awaited)) {
      changes.started.push_back(pid);
    } else if (timeout_msec_ != 0 &&
               functions_.now() - awaited.since >= timeout_msec_) {
      changes.given_up[pid] = absl::DeadlineExceededError(
          absl::StrCat("process ", pid, " has not started its HSA runtime within ",
                       timeout_msec_, " ms; it runs on as before"));
    } else {
      settled = false;
      if (*start != RuntimeStart::kNotLoaded && !std::exchange(awaited.loaded, true)) {
        changes.loaded.push_back(pid);
      }
    }
    it = settled ? awaited_.erase(it) : std::next(it);
  }
  return changes;
}

}  // namespace rocattach
