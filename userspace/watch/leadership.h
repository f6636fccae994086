// Leader and followers: which of several threads waits for the next event.
#ifndef ROCATTACH_USERSPACE_WATCH_LEADERSHIP_H_
#define ROCATTACH_USERSPACE_WATCH_LEADERSHIP_H_

#include <semaphore>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace rocattach {

// One thread at a time leads. The lead goes to the thread that has been idle for the
// shortest time, so that few events are handled by few threads, whose caches and heaps
// are warm.
class Leadership {
 public:
  // One of the threads; used by that thread alone.
  class Member {
   public:
    bool leads() const { return leads_; }

   private:
    friend class Leadership;
    bool leads_ = false;
    std::binary_semaphore called_{0};
  };

  // Waits until there is no other leader.
  void Acquire(Member* member) ABSL_LOCKS_EXCLUDED(mutex_);
  // Passes the lead to the thread that became idle last; no effect unless `member`
  // leads.
  void HandOver(Member* member) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  bool has_leader_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Member*> idle_ ABSL_GUARDED_BY(mutex_);  // the last one is next
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_LEADERSHIP_H_
