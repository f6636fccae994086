#include "userspace/watch/windows/user_turns.h"

namespace rocattach {

bool UserTurns::BeginTurn(const rocattach_event& event) {
  absl::MutexLock lock(&mutex_);
  User& user = users_[event.charged_uid];
  if (user.turns < most_per_user_) {
    ++user.turns;
    return true;
  }
  user.waiting.push_back(event);
  ++waiting_;
  return false;
}

std::optional<rocattach_event> UserTurns::Pass(const rocattach_event& event) {
  absl::MutexLock lock(&mutex_);
  const auto user = users_.find(event.charged_uid);
  if (user == users_.end()) return std::nullopt;
  if (!user->second.waiting.empty()) {
    const rocattach_event next = user->second.waiting.front();
    user->second.waiting.pop_front();
    --waiting_;
    return next;
  }
  if (--user->second.turns == 0) users_.erase(user);
  return std::nullopt;
}

std::vector<rocattach_event> UserTurns::TakeOlderWindows(uint64_t before_ns) {
  std::vector<rocattach_event> older;
  absl::MutexLock lock(&mutex_);
  if (waiting_ == 0) return older;
  for (auto& [uid, user] : users_) {
    waiting_ -= std::erase_if(user.waiting, [&](const rocattach_event& event) {
      const bool old =
          event.type == ROCATTACH_EVENT_WINDOW && event.time_ns < before_ns;
      if (old) older.push_back(event);
      return old;
    });
  }
  return older;
}

bool UserTurns::HasWaiting() const {
  absl::MutexLock lock(&mutex_);
  return waiting_ > 0;
}

}  // namespace rocattach
