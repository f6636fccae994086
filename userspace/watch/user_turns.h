// How many threads the processes of one user may occupy.
#ifndef ROCATTACH_USERSPACE_WATCH_USER_TURNS_H_
#define ROCATTACH_USERSPACE_WATCH_USER_TURNS_H_

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

// A process can keep the thread that serves its event waiting, by its memory or its file
// system. So each user has a number of turns; events beyond them wait here, and no
// thread waits with them. Thread-safe.
class UserTurns {
 public:
  explicit UserTurns(int most_per_user) : most_per_user_(most_per_user) {}

  // Of events that can keep their thread waiting: WINDOW and READY. True: it may be
  // served, and a turn is taken. False: it waits here.
  bool Take(const rocattach_event& event) ABSL_LOCKS_EXCLUDED(mutex_);
  // The turn of `event` is over. If another one of its user waits, that has it now.
  std::optional<rocattach_event> Pass(const rocattach_event& event)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes the WINDOWs of before `before_ns`, CLOCK_BOOTTIME, that still wait. A READY
  // is never too late: its collector waits.
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
  // By the user that the event is charged to: root of a container may have many.
  std::map<uid_t, User> users_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_USER_TURNS_H_
