// Limits on what the processes of one user may cost the service. The service is
// privileged and serves every user of the machine: whatever the processes of one user
// do, the service's memory, CPU time and descriptors stay bounded, and other users are
// not affected.
//
// Windows and processes are counted in the kernel (bpf/budget.h): those that are
// refused there cause no event. Everything else is counted here.
#ifndef ROCATTACH_USERSPACE_WATCH_BUDGET_H_
#define ROCATTACH_USERSPACE_WATCH_BUDGET_H_

#include <sys/resource.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace rocattach {

// 0 means no limit in each of these.
struct BudgetLimits {
  // The windows of this many seconds may come at once.
  static constexpr uint32_t kBurstSeconds = 2;

  // For the processes of one user; a single process may have half of them.
  uint32_t windows_per_second = 1000;
  // Live processes of one user that have had a window.
  uint32_t processes_per_user = 1024;
  // Attached processes of all users at a time. Each takes two descriptors.
  uint32_t processes = 4096;
  // Copies of the runtime that get a probe: for all users, and for one user other than
  // root. Copies that the command line names are not counted.
  uint32_t libraries = 512;
  uint32_t libraries_per_user = 32;
  // Lines that the service prints about one user's processes.
  uint32_t lines_per_second = 500;
};

// Windows of a user that were refused in the kernel.
struct UserRefusals {
  uint32_t uid = 0;  // ROCATTACH_OTHER_USERS: users beyond the 4,096 that have accounts
  uint64_t windows = 0;
};

// Text that says why a window was refused. `budget` is an enum rocattach_budget;
// `refused` windows of the user `uid` have been refused so far.
std::string BudgetRefusal(uint64_t budget, uint32_t uid, uint64_t refused,
                          const BudgetLimits& limits);
// "user 1000"
std::string BudgetUser(uint32_t uid);

// Limits the rate of an action for each user, and counts what exceeds it. Not
// thread-safe.
class UserRate {
 public:
  // `per_second` 0: no limit.
  UserRate(uint32_t per_second, uint32_t burst)
      : interval_ns_(per_second == 0 ? 0 : 1'000'000'000 / per_second),
        burst_ns_(interval_ns_ * burst) {}

  // False if this action is to be omitted, which is counted.
  bool Allow(uint32_t uid, uint64_t now_ns);
  struct LeftOut {
    uint32_t uid = 0;
    uint64_t count = 0;
  };
  // Returns what was omitted since the last call.
  std::vector<LeftOut> TakeLeftOut();

 private:
  struct User {
    uint64_t due_ns = 0;
    uint64_t left_out = 0;
  };
  // Removes users that have been idle long enough to have their full rate again.
  void ForgetQuiet(uint64_t now_ns);

  const uint64_t interval_ns_, burst_ns_;
  absl::flat_hash_map<uint32_t, User> users_;
};

// Gives this process as many descriptors as it may have: the soft limit is raised to
// the hard limit. A child that runs another program gets the old limit back, because
// programs that use select() fail with more than 1,024.
class DescriptorLimit {
 public:
  static DescriptorLimit Raise();
  // For a child between fork() and exec(): async-signal-safe.
  void Restore() const;
  // Number of processes that can be attached with these descriptors, at most `wanted`.
  uint32_t Processes(uint32_t wanted) const;
  uint64_t most() const { return most_; }

 private:
  rlimit before_ = {};
  uint64_t most_ = 0;
  bool raised_ = false;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_BUDGET_H_
