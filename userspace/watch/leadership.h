// Leader and followers: which of several threads waits for the next event.
#ifndef ROCATTACH_USERSPACE_WATCH_LEADERSHIP_H_
#define ROCATTACH_USERSPACE_WATCH_LEADERSHIP_H_

#include <atomic>
#include <cstdint>
#include <semaphore>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace rocattach {

// One thread at a time leads. The lead goes to the thread that has been idle for the
// shortest time, so that few events are handled by few threads, whose caches and heaps
// are warm. A thread that serves an event while it leads makes the others wait, so the
// lead is taken away from it when that takes long.
class Leadership {
 public:
  // One of the threads; used by that thread alone.
  class Member {
   public:
    // False as well when the lead has been taken away.
    bool leads() const { return leads_.load(std::memory_order_relaxed); }

   private:
    friend class Leadership;
    std::atomic<bool> leads_ = false;
    std::binary_semaphore called_{0};
  };

  // Waits until there is no other leader.
  void Acquire(Member* member) ABSL_LOCKS_EXCLUDED(mutex_);
  // Passes the lead to the thread that became idle last; no effect unless `member`
  // leads.
  void HandOver(Member* member) ABSL_LOCKS_EXCLUDED(mutex_);

  // The leader serves an event from `now_ns` on, and does not wait for the next one.
  void BeginWork(const Member& member, uint64_t now_ns) ABSL_LOCKS_EXCLUDED(mutex_);
  // It waits again, if it still leads.
  void EndWork(const Member& member) ABSL_LOCKS_EXCLUDED(mutex_);

  // Since when nobody has waited for events; 0: somebody does.
  uint64_t UnattendedSince() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes the lead from a thread that has been serving an event since `before_ns` or
  // earlier. True if nobody leads now, because no thread is idle.
  bool Relieve(uint64_t before_ns) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Passes the lead on; the new leader is to be called without the lock.
  Member* PassOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  Member* leader_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // As UnattendedSince() has it; without a leader since the last one has gone.
  uint64_t unattended_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Member*> idle_ ABSL_GUARDED_BY(mutex_);  // the last one is next
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_LEADERSHIP_H_
