#include "userspace/service/requested_attaches.h"

#include <algorithm>

namespace rocattach {

void RequestedAttaches::Add(const std::vector<pid_t>& pids) {
  absl::MutexLock lock(&mutex_);
  for (pid_t pid : pids) awaited_[pid] = 0;
}

void RequestedAttaches::NoteVerdict(pid_t pid, bool retried) {
  absl::MutexLock lock(&mutex_);
  const auto found = awaited_.find(pid);
  if (found == awaited_.end()) return;
  if (retried && found->second == 0) {
    found->second = now_() + kRetryMsec;
  } else {
    awaited_.erase(found);
  }
}

void RequestedAttaches::Remove(pid_t pid) {
  absl::MutexLock lock(&mutex_);
  awaited_.erase(pid);
}

bool RequestedAttaches::settled() const {
  absl::MutexLock lock(&mutex_);
  const uint64_t now = now_();
  return std::all_of(awaited_.begin(), awaited_.end(), [now](const auto& entry) {
    return entry.second != 0 && entry.second <= now;
  });
}

}  // namespace rocattach
