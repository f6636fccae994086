#include "userspace/watch/discovery/recent_users.h"

#include "userspace/base/process.h"

namespace rocattach {

uid_t RecentUsers::UserOfLiving(pid_t pid) {
  const uid_t uid = UserOf(pid);
  return uid == 0 && !ReadStartTicks(pid).ok() ? kEnded : uid;
}

uid_t RecentUsers::Of(pid_t pid, uint64_t now_ns) {
  {
    absl::MutexLock lock(&mutex_);
    const auto user = users_.find(pid);
    if (user != users_.end() && now_ns < user->second.until_ns) return user->second.uid;
  }
  const uid_t uid = read_(pid);
  absl::MutexLock lock(&mutex_);
  if (users_.size() >= kMost) ForgetOld(now_ns);
  users_[pid] = {uid, now_ns + kNs};
  return uid;
}

void RecentUsers::ForgetOld(uint64_t now_ns) {
  absl::erase_if(users_,
                 [now_ns](const auto& user) { return user.second.until_ns <= now_ns; });
  // Otherwise each further process would cause a search of all of them.
  if (users_.size() > kMost / 2) users_.clear();
}

}  // namespace rocattach
