// Leader and followers: decides which of several threads waits for the next event.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_LEADERSHIP_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_LEADERSHIP_H_

#include <atomic>
#include <cstdint>
#include <semaphore>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace rocattach {

// One thread at a time leads. The lead goes to the thread that has been idle for the
// shortest time, so that few events are handled by few threads, whose caches and heaps
// are warm. While the leader serves an event, no thread waits for the next one, so the
// lead is taken away from it when that takes long.
class Leadership {
 public:
  // One of the threads; used by that thread alone.
  class Member {
   public:
    // Also false when the lead has been taken away.
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
  // The leader waits again, if it still leads.
  void EndWork(const Member& member) ABSL_LOCKS_EXCLUDED(mutex_);

  // Time since which no thread has waited for events; 0: a thread does.
  uint64_t UnattendedSince() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes the lead from a thread that has been serving an event since `before_ns` or
  // earlier. True if there is no leader now, because no thread is idle.
  bool Relieve(uint64_t before_ns) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Passes the lead on; the new leader is to be called without the lock.
  Member* PassOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  Member* leader_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // See UnattendedSince(); without a leader, the time when the last one left.
  uint64_t unattended_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Member*> idle_ ABSL_GUARDED_BY(mutex_);  // the last one leads next
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_LEADERSHIP_H_
