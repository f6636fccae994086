// Decides which process is looked at next.
#ifndef ROCATTACH_USERSPACE_WATCH_DISCOVERY_LOOK_QUEUE_H_
#define ROCATTACH_USERSPACE_WATCH_DISCOVERY_LOOK_QUEUE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace rocattach {

// Processes that wait for a look, by user. For each user but root, one process is
// looked at at a time, and a process that is requested several times while it waits has
// one look. So one user's processes cost those of others nothing, however often they
// are requested. Not thread-safe.
class LookQueue {
 public:
  // Maximum number of waiting processes of each user.
  static constexpr size_t kMostPerUser = 4096;
  // For each user but root: processes that may begin to wait for a look in a second,
  // and at once. Looks at further ones are delayed accordingly.
  static constexpr uint64_t kPerUserAndSecond = 1000;
  static constexpr uint64_t kBurst = 2000;
  // Time from an open to the mapping that follows.
  static constexpr uint64_t kPauseNs = 100'000;

  struct Look {
    pid_t pid = 0;
    uid_t uid = 0;
    uint64_t requested_ns = 0;  // when it was last requested
    bool mapped = false;        // it has mapped code of a copy
    // How it is known to be translated, with the start time of the process of which that
    // is known; empty: not known. The look is at whatever process has the ID.
    std::string how = {};
    uint64_t start_ticks = 0;
    // The last look: the request that it was for, and the processor time that the
    // process had used by then, and by the first look for that request.
    uint64_t seen_ns = 0;
    std::optional<uint64_t> cpu_ns = std::nullopt, first_cpu_ns = std::nullopt;
  };

  // Why a process is looked at: because of what it has done itself, or of what others
  // have done, which does not count against its user's rate.
  enum class Cause { kMapped, kOpened, kOthers };
  void RequestLook(pid_t pid, uid_t uid, Cause cause, uint64_t now_ns);
  // Takes a look that is due, the one that has waited longest. There is no other one
  // for its user until Done().
  std::optional<Look> Take(uint64_t now_ns);
  // Ends the look. `again_ns`: when the process is looked at again, unless it has been
  // requested meanwhile; 0: it is not.
  void Done(Look look, uint64_t again_ns, uint64_t now_ns);
  // When Take() will have one, if nothing else is called; UINT64_MAX: never.
  uint64_t NextDueNs() const;
  // Looks that were left out, because kMostPerUser of the same user were waiting.
  uint64_t left_out() const { return left_out_; }

 private:
  struct Waiting {
    Look look;
    uint64_t due_ns = 0;
    uint64_t earliest_ns = 0;  // its user's rate allows no earlier time
  };
  struct User {
    std::set<std::pair<uint64_t, pid_t>> due;  // those that wait, by time
    bool busy = false;                         // one of them is being looked at
    uint64_t paid_ns = 0;                      // its rate is used up until this time
  };
  using Users = std::map<uid_t, User>;

  void Add(Waiting waiting);
  static uint64_t Pay(User* user, uint64_t now_ns);
  Users::const_iterator Next() const;

  std::map<pid_t, Waiting> waiting_;
  Users users_;  // users with processes that wait or have waited lately
  uint64_t left_out_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_DISCOVERY_LOOK_QUEUE_H_
