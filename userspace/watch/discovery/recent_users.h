// Caches the users of processes that the kernel reports again and again.
#ifndef ROCATTACH_USERSPACE_WATCH_DISCOVERY_RECENT_USERS_H_
#define ROCATTACH_USERSPACE_WATCH_DISCOVERY_RECENT_USERS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "userspace/base/user_threads.h"

namespace rocattach {

// Finding the user of a process takes some ten system calls, and a process may map or
// open files as often as it likes. So threads that serve all users read it once in kNs:
// for a budget, it does not matter if the user changes meanwhile. With many processes,
// each one's user is read, which costs less than starting them. Thread-safe.
class RecentUsers {
 public:
  // Shorter than the time after which a process ID is reused.
  static constexpr uint64_t kNs = 100'000'000;
  static constexpr size_t kMost = 16384;

  // For a process that has ended: no user, and not root, which no budget limits.
  static constexpr uid_t kEnded = ~uid_t{0};
  static uid_t UserOfLiving(pid_t pid);

  explicit RecentUsers(std::function<uid_t(pid_t)> read = UserOfLiving)
      : read_(std::move(read)) {}

  uid_t Of(pid_t pid, uint64_t now_ns) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct User {
    uid_t uid = 0;
    uint64_t until_ns = 0;
  };
  void ForgetOld(uint64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<uid_t(pid_t)> read_;
  absl::Mutex mutex_;
  absl::flat_hash_map<pid_t, User> users_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_DISCOVERY_RECENT_USERS_H_
