// A condition variable for absl::Mutex whose timeouts follow the monotonic clock.
#ifndef ROCATTACH_USERSPACE_BASE_STEADY_COND_VAR_H_
#define ROCATTACH_USERSPACE_BASE_STEADY_COND_VAR_H_

#include <chrono>
#include <condition_variable>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace rocattach {

// Use this wherever a wait has a timeout. The timed waits of absl::Mutex and
// absl::CondVar turn the timeout into a time of day, so a step of the system clock
// during the wait lengthens or shortens it by as much.
class SteadyCondVar {
 public:
  void SignalAll() { changed_.notify_all(); }

  // Waits until `condition()` is true, which is evaluated with `mutex` held. The code
  // that makes it true must call SignalAll().
  template <typename Condition>
  void Wait(absl::Mutex* mutex, Condition condition)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    Lockable lock(mutex);
    changed_.wait(lock, condition);
  }
  // The same, for at most `timeout`, which is finite. False if it is not true by then.
  template <typename Condition>
  bool WaitFor(absl::Mutex* mutex, absl::Duration timeout, Condition condition)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    Lockable lock(mutex);
    return changed_.wait_until(
        lock, std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout),
        condition);
  }

 private:
  // The mutex under the names that the standard library expects.
  class Lockable {
   public:
    explicit Lockable(absl::Mutex* mutex) : mutex_(mutex) {}
    void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_->Lock(); }
    void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_->Unlock(); }

   private:
    absl::Mutex* mutex_;
  };

  std::condition_variable_any changed_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_STEADY_COND_VAR_H_
