// Threads for work that a user's processes or file systems can keep waiting.
#ifndef ROCATTACH_USERSPACE_BASE_USER_THREADS_H_
#define ROCATTACH_USERSPACE_BASE_USER_THREADS_H_

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace rocattach {

// A read of a process's memory, of its files or of its entries in /proc takes as long
// as its user likes: a page fault waits for a file system in user space, or for a hole
// that another thread is punching; /proc/PID/maps waits for the holder of the lock of
// the process's mappings. Some of these waits cannot even be ended by SIGKILL. So each
// user has threads of its own here, a few at a time, and the tasks of one user never
// wait for those of another. Thread-safe.
class UserThreads {
 public:
  using Task = std::function<void()>;

  // `name`, of at most 15 bytes, is a literal: all threads have it. At most
  // `most_per_user` tasks of each user run at a time. `priority`: a real-time one, see
  // TaskThread; 0: ordinary threads. With a real-time priority, tasks of a user other
  // than root wait once they have used kRealtimeBurst of processor time, and then get
  // one part in kRealtimeShare of a processor: what they read can be made expensive.
  static constexpr absl::Duration kRealtimeBurst = absl::Seconds(1);
  static constexpr int kRealtimeShare = 2;
  UserThreads(const char* name, int most_per_user, int priority = 0);
  // Stops without waiting.
  ~UserThreads();
  UserThreads(const UserThreads&) = delete;
  UserThreads& operator=(const UserThreads&) = delete;

  // Runs the task on a thread, behind earlier ones of the same user. False, and it is
  // dropped, after Stop(), if kMostWaiting of the user's wait already, or if there is no
  // thread for it.
  static constexpr size_t kMostWaiting = 4096;
  bool Run(uid_t uid, Task task);

  // Drops the tasks that have not begun and waits for those that have. False if one has
  // not returned within `patience`: it goes on, so what it uses must not be destroyed.
  bool Stop(absl::Duration patience);

  // Waits for all tasks that have been added, and stops. False if one has not returned
  // within `patience`, as with Stop().
  bool Finish(absl::Duration patience);

  // Number of tasks that have been running for longer than this.
  size_t Kept(absl::Duration than) const;

 private:
  class State;

  // Also owned by the threads.
  const std::shared_ptr<State> state_;
};

// Calls `read` for each process, on a thread of its user's. Returns those for which it
// has not returned within `patience`: it goes on for them, or never begins, so it must
// own what it uses.
std::set<pid_t> ReadProcesses(UserThreads* threads, absl::Duration patience,
                              const std::vector<pid_t>& pids,
                              std::function<void(pid_t)> read);

// The error for such a process: DEADLINE_EXCEEDED.
absl::Status KeepsReadersWaiting(pid_t pid);

// The user to whom a process is charged: its effective user, or the owner of its user
// namespace, who may use many IDs. Root for one that has ended. Never waits.
uid_t UserOf(pid_t pid);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_USER_THREADS_H_
