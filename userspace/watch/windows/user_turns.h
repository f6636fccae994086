// Limits the number of threads that the processes of one user may occupy.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_USER_TURNS_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_USER_TURNS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "bpf/watch_events.h"

namespace rocattach {

// A process can block the thread that serves its event, by its memory or its file
// system. So each user has a number of turns; events beyond them wait here, without a
// thread. Thread-safe.
class UserTurns {
 public:
  explicit UserTurns(int most_per_user) : most_per_user_(most_per_user) {}

  // For events that can block their thread: WINDOW and READY. True: the event may be
  // served, its turn has begun. False: it waits here.
  bool BeginTurn(const rocattach_event& event) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the turn of `event`; returns the next event of its user, which has it then.
  std::optional<rocattach_event> Pass(const rocattach_event& event)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes WINDOWs older than `before_ns`, CLOCK_BOOTTIME, that still wait. A READY is
  // never too late: its collector waits.
  std::vector<rocattach_event> TakeOlderWindows(uint64_t before_ns)
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasWaiting() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct User {
    int turns = 0;
    std::deque<rocattach_event> waiting;
  };

  const int most_per_user_;
  mutable absl::Mutex mutex_;
  // By the user that the event is charged to: root in a container may have many.
  std::map<uid_t, User> users_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_USER_TURNS_H_
