// Which process is looked at next.
#ifndef ROCATTACH_USERSPACE_WATCH_LOOK_QUEUE_H_
#define ROCATTACH_USERSPACE_WATCH_LOOK_QUEUE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace rocattach {

// Processes that wait for a look, by user. Of each user but root one process is looked
// at at a time, and a process that is noted several times while it waits has one look.
// So one user's processes cost those of others nothing, however often they are noted.
// Not thread-safe.
class LookQueue {
 public:
  // Of each user: processes that wait.
  static constexpr size_t kMostPerUser = 4096;
  // Of each user but root: processes that begin to wait for a look in a second, and at
  // once. Looks at further ones come as much later.
  static constexpr uint64_t kPerUserAndSecond = 1000;
  static constexpr uint64_t kBurst = 2000;
  // From an open to the mapping that follows.
  static constexpr uint64_t kPauseNs = 100'000;

  struct Look {
    pid_t pid = 0;
    uid_t uid = 0;
    uint64_t noted_ns = 0;  // the last time
    bool mapped = false;    // it has code of a copy
    std::string how = {};   // it is known to be translated; empty: not yet
    // The last look: which note it was for, and what processor time the process had used
    // by then, and by the first look for that note.
    uint64_t seen_ns = 0;
    std::optional<uint64_t> cpu_ns = std::nullopt, first_cpu_ns = std::nullopt;
  };

  // Why a process is looked at: what it has done, or something that others have done, for
  // which its user does not pay.
  enum class Cause { kMapped, kOpened, kOthers };
  void Note(pid_t pid, uid_t uid, Cause cause, uint64_t now_ns);
  // A look that is due, that of the longest wait first. Until Done(), there is no other
  // one of its user.
  std::optional<Look> Take(uint64_t now_ns);
  // The look is over. `again_ns`: the process is looked at again then, unless it has
  // been noted meanwhile; 0: it is not.
  void Done(Look look, uint64_t again_ns, uint64_t now_ns);
  // From when on Take() has one, if nothing else is called; UINT64_MAX: never.
  uint64_t NextDueNs() const;
  // Looks that were left out, because kMostPerUser of the user's waited.
  uint64_t left_out() const { return left_out_; }

 private:
  struct Waiting {
    Look look;
    uint64_t due_ns = 0;
    uint64_t earliest_ns = 0;  // its user's rate allows no sooner one
  };
  struct User {
    std::set<std::pair<uint64_t, pid_t>> due;  // those that wait, by time
    bool busy = false;                         // one is being looked at
    uint64_t paid_ns = 0;  // its rate has been used as if it were this time
  };
  using Users = std::map<uid_t, User>;

  void Add(Waiting waiting);
  static uint64_t Pay(User* user, uint64_t now_ns);
  Users::const_iterator Next() const;

  std::map<pid_t, Waiting> waiting_;
  Users users_;  // of those that wait or have waited lately
  uint64_t left_out_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_LOOK_QUEUE_H_
