#include "userspace/service/awaited_safe_points.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace rocattach {

bool AwaitedSafePoints::Add(const ProcessId& process, const std::string& why) {
  absl::MutexLock lock(&mutex_);
  const uint64_t now = functions_.now();
  const auto [place, inserted] = awaited_.try_emplace(process.pid);
  Awaited& awaited = place->second;
  const bool is_new = inserted || awaited.start_ticks != process.start_ticks;
  if (is_new) {
    awaited = Awaited();
    awaited.start_ticks = process.start_ticks;
    awaited.since = now;
  } else {
    awaited.pause = std::min(2 * awaited.pause, kLongestPauseMsec);
  }
  awaited.due = now + awaited.pause;
  awaited.being_tried = false;
  awaited.why = why;
  return is_new;
}

void AwaitedSafePoints::Remove(pid_t pid) {
  absl::MutexLock lock(&mutex_);
  awaited_.erase(pid);
}

bool AwaitedSafePoints::empty() const {
  absl::MutexLock lock(&mutex_);
  return awaited_.empty();
}

AwaitedSafePoints::Changes AwaitedSafePoints::Poll() {
  Changes changes;
  absl::MutexLock lock(&mutex_);
  const uint64_t now = functions_.now();
  for (auto it = awaited_.begin(); it != awaited_.end();) {
    const pid_t pid = it->first;
    Awaited& awaited = it->second;
    if (awaited.being_tried) {  // the result of the attempt is still to come
      ++it;
      continue;
    }
    const auto ticks = functions_.read_start_ticks(pid);
    bool over = true;
    if (!ticks.ok() || *ticks != awaited.start_ticks) {
      changes.given_up[pid] = absl::NotFoundError(
          absl::StrCat("process ", pid,
                       " has ended, and could not be entered before: ", awaited.why));
    } else if (timeout_msec_ != 0 && now - awaited.since >= timeout_msec_) {
      changes.given_up[pid] = absl::DeadlineExceededError(
          absl::StrCat("process ", pid, " could not be entered within ", timeout_msec_,
                       " ms: ", awaited.why, "; it runs on as before"));
    } else {
      over = false;
      if (now >= awaited.due) {
        awaited.being_tried = true;
        changes.due.push_back(pid);
      }
    }
    it = over ? awaited_.erase(it) : std::next(it);
  }
  return changes;
}

}  // namespace rocattach
