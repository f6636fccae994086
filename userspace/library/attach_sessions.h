// The processes that this one is attached to.
#ifndef ROCATTACH_USERSPACE_LIBRARY_ATTACH_SESSIONS_H_
#define ROCATTACH_USERSPACE_LIBRARY_ATTACH_SESSIONS_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "userspace/library/attach_session.h"
#include "userspace/library/rocattach.h"

namespace rocattach {

// Thread-safe. No lock is held while a target is attached to or a recording ends.
class AttachSessions {
 public:
  explicit AttachSessions(AttachLimits limits = {}) : limits_(limits) {}

  rocattach_status_t Attach(int pid, bool tree);
  rocattach_status_t Detach(int pid);
  rocattach_status_t DetachTree(int pid);

  // Around fork(): the child of a fork has no sessions, and keeps none of them alive.
  void BeforeFork() { mutex_.lock(); }
  void AfterForkInParent() { mutex_.unlock(); }
  void AfterForkInChild();

 private:
  struct Entry {
    bool tree = false;
    // Null while a thread attaches or detaches.
    std::unique_ptr<AttachSession> session;
  };

  // Makes an entry for a session of `pid`; false if `pid` is in a session already.
  bool Reserve(int pid, bool tree);
  // Takes the session of `pid`, to end it. The entry stays until Release().
  std::unique_ptr<AttachSession> Take(int pid);
  void Release(int pid);
  rocattach_status_t DetachAll();
  // True if `pid` belongs to the tree of another process. Call with the lock held.
  bool InATree(int pid) const;

  const AttachLimits limits_;
  std::mutex mutex_;  // allowed: it is locked across fork(), and the child unlocks it
  std::map<int, Entry> entries_;  // by the process ID of the attach call
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_ATTACH_SESSIONS_H_
