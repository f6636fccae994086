#include "userspace/watch/budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "bpf/watch_events.h"

namespace rocattach {
namespace {

// Maximum number of users for whom a rate is kept.
constexpr size_t kMostUsers = 4096;
// Descriptors that the service needs for itself: probes, threads that attach, output.
constexpr uint64_t kOwnDescriptors = 512;
// For each attached process: one for the process, one for its collector's memory.
constexpr uint64_t kDescriptorsOfAProcess = 2;

}  // namespace

std::string BudgetUser(uint32_t uid) {
  if (uid == ROCATTACH_OTHER_USERS) return "further users";
  return absl::StrCat("user ", uid);
}

std::string BudgetRefusal(uint64_t budget, uint32_t uid, uint64_t refused,
                          const BudgetLimits& limits) {
  const std::string user = BudgetUser(uid);
  std::string why;
  switch (budget) {
    case ROCATTACH_BUDGET_USER_WINDOWS:
      why = absl::StrCat("the processes of ", user, " open more than ",
                         limits.windows_per_second,
                         " windows a second (--windows-per-second)");
      break;
    case ROCATTACH_BUDGET_PROCESS_WINDOWS:
      why = absl::StrCat("this process of ", user, " opens more than ",
                         limits.windows_per_second / 2,
                         " windows a second, half of what its user may "
                         "(--windows-per-second)");
      break;
    case ROCATTACH_BUDGET_USER_PROCESSES:
      why = absl::StrCat(user, " has ", limits.processes_per_user,
                         " GPU processes already (--processes-per-user)");
      break;
    default:
      why = absl::StrCat("a budget of ", user, " is used up");
  }
  return absl::StrCat(
      why, "; ", refused,
      refused == 1 ? " window of that user was" : " windows of that user were",
      " refused so far");
}

bool UserRate::Allow(uint32_t uid, uint64_t now_ns) {
  if (interval_ns_ == 0) return true;
  if (users_.size() >= kMostUsers && !users_.contains(uid)) ForgetQuiet(now_ns);
  User& user = users_[uid];
  const uint64_t due_ns = std::max(user.due_ns, now_ns);
  if (due_ns - now_ns > burst_ns_) {
    ++user.left_out;
    return false;
  }
  user.due_ns = due_ns + interval_ns_;
  return true;
}

void UserRate::ForgetQuiet(uint64_t now_ns) {
  absl::erase_if(users_, [now_ns](const auto& entry) {
    return entry.second.due_ns <= now_ns && entry.second.left_out == 0;
  });
  if (users_.size() >= kMostUsers) users_.clear();
}

std::vector<UserRate::LeftOut> UserRate::TakeLeftOut() {
  std::vector<LeftOut> all;
  for (auto& [uid, user] : users_) {
    if (user.left_out == 0) continue;
    all.push_back({uid, user.left_out});
    user.left_out = 0;
  }
  std::sort(all.begin(), all.end(),
            [](const LeftOut& a, const LeftOut& b) { return a.uid < b.uid; });
  return all;
}

DescriptorLimit DescriptorLimit::Raise() {
  DescriptorLimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit.before_) != 0) return limit;
  limit.most_ = limit.before_.rlim_cur;
  if (limit.before_.rlim_cur >= limit.before_.rlim_max) return limit;
  rlimit raised = limit.before_;
  raised.rlim_cur = raised.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &raised) != 0) return limit;
  limit.raised_ = true;
  limit.most_ = raised.rlim_cur;
  return limit;
}

void DescriptorLimit::Restore() const {
  if (raised_) setrlimit(RLIMIT_NOFILE, &before_);
}

uint32_t DescriptorLimit::Processes(uint32_t wanted) const {
  if (most_ == 0) return wanted;
  // Half of the descriptors if there are few.
  const uint64_t own = most_ > 2 * kOwnDescriptors ? kOwnDescriptors : most_ / 2;
  const uint64_t room = (most_ - own) / kDescriptorsOfAProcess;
  if (wanted == 0) return static_cast<uint32_t>(std::min<uint64_t>(room, UINT32_MAX));
  return static_cast<uint32_t>(std::min<uint64_t>(room, wanted));
}

}  // namespace rocattach
