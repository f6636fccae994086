#include "userspace/watch/discovery/look_queue.h"

#include <algorithm>

namespace rocattach {

void LookQueue::RequestLook(pid_t pid, uid_t uid, Cause cause, uint64_t now_ns) {
  const bool mapped = cause == Cause::kMapped;
  const uint64_t wanted_ns = mapped ? now_ns : now_ns + kPauseNs;
  const auto found = waiting_.find(pid);
  if (found == waiting_.end()) {
    User& user = users_[uid];
    if (user.due.size() >= kMostPerUser) {
      ++left_out_;
      return;
    }
    const bool is_free = uid == 0 || cause == Cause::kOthers;
    const uint64_t earliest_ns = is_free ? now_ns : Pay(&user, now_ns);
    Add({.look = {.pid = pid, .uid = uid, .requested_ns = now_ns, .mapped = mapped},
         .due_ns = std::max(wanted_ns, earliest_ns),
         .earliest_ns = earliest_ns});
    return;
  }
  Waiting& waiting = found->second;
  waiting.look.requested_ns = now_ns;
  waiting.look.mapped |= mapped;
  const uint64_t due_ns = std::max(wanted_ns, waiting.earliest_ns);
  if (due_ns >= waiting.due_ns) return;
  User& user = users_[waiting.look.uid];
  user.due.erase({waiting.due_ns, pid});
  user.due.insert({due_ns, pid});
  waiting.due_ns = due_ns;
}

void LookQueue::Add(Waiting waiting) {
  const pid_t pid = waiting.look.pid;
  users_[waiting.look.uid].due.insert({waiting.due_ns, pid});
  waiting_[pid] = std::move(waiting);
}

uint64_t LookQueue::Pay(User* user, uint64_t now_ns) {
  constexpr uint64_t kIntervalNs = 1'000'000'000 / kPerUserAndSecond;
  constexpr uint64_t kBurstNs = kBurst * kIntervalNs;
  user->paid_ns = std::max(user->paid_ns, now_ns) + kIntervalNs;
  return std::max(now_ns, user->paid_ns - std::min(user->paid_ns, kBurstNs));
}

LookQueue::Users::const_iterator LookQueue::Next() const {
  auto next = users_.end();
  for (auto user = users_.begin(); user != users_.end(); ++user) {
    if (user->second.busy || user->second.due.empty()) continue;
    if (next == users_.end() ||
        user->second.due.begin()->first < next->second.due.begin()->first) {
      next = user;
    }
  }
  return next;
}

std::optional<LookQueue::Look> LookQueue::Take(uint64_t now_ns) {
  const auto next = Next();
  if (next == users_.end() || next->second.due.begin()->first > now_ns) {
    return std::nullopt;
  }
  User& user = users_[next->first];
  user.busy = next->first != 0;
  const pid_t pid = user.due.begin()->second;
  user.due.erase(user.due.begin());
  return std::move(waiting_.extract(pid).mapped().look);
}

void LookQueue::Done(Look look, uint64_t again_ns, uint64_t now_ns) {
  User& user = users_[look.uid];
  user.busy = false;
  if (again_ns != 0 && waiting_.count(look.pid) == 0) {
    if (user.due.size() < kMostPerUser) {
      Add({.look = std::move(look), .due_ns = again_ns});
    } else {
      ++left_out_;
    }
  }
  std::erase_if(users_, [now_ns](const auto& entry) {
    const User& other = entry.second;
    return other.due.empty() && !other.busy && other.paid_ns <= now_ns;
  });
}

uint64_t LookQueue::NextDueNs() const {
  const auto next = Next();
  return next == users_.end() ? UINT64_MAX : next->second.due.begin()->first;
}

}  // namespace rocattach
