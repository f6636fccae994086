#include "userspace/service/requested_attaches.h"

#include <algorithm>

namespace rocattach {

void RequestedAttaches::Add(const std::vector<pid_t>& pids) {
  absl::MutexLock lock(&mutex_);
  for (pid_t pid : pids) awaited_[pid] = {now_(), 0};
}

void RequestedAttaches::OnVerdict(pid_t pid, bool retried) {
  absl::MutexLock lock(&mutex_);
  const auto found = awaited_.find(pid);
  if (found == awaited_.end()) return;
  last_settled_ = now_();
  if (retried && found->second.until == 0) {
    found->second.until = now_() + kRetryMsec;
  } else {
    awaited_.erase(found);
  }
}

void RequestedAttaches::Remove(pid_t pid) {
  absl::MutexLock lock(&mutex_);
  if (awaited_.erase(pid) != 0) last_settled_ = now_();
}

std::vector<pid_t> RequestedAttaches::TakeOverdue(uint64_t msec) {
  std::vector<pid_t> overdue;
  absl::MutexLock lock(&mutex_);
  const uint64_t now = now_(), settled = last_settled_;
  std::erase_if(awaited_, [&](const auto& entry) {
    const auto& [pid, awaited] = entry;
    const uint64_t since = std::max(awaited.since, settled);
    if (awaited.until != 0 || now - since < msec) return false;
    overdue.push_back(pid);
    return true;
  });
  return overdue;
}

bool RequestedAttaches::settled() const {
  absl::MutexLock lock(&mutex_);
  const uint64_t now = now_();
  return std::all_of(awaited_.begin(), awaited_.end(), [now](const auto& entry) {
    return entry.second.until != 0 && entry.second.until <= now;
  });
}

}  // namespace rocattach
