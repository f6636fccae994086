// A lock that may be held for a long time.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COMMON_SLEEPING_LOCK_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COMMON_SLEEPING_LOCK_H_

#include "userspace/abi/atomics.h"

namespace rocattach::collector {

// Waiters sleep in the kernel. The thread that holds it may call Lock again, which then
// returns false: Unlock must not be called for that call.
class SleepingLock {
 public:
  bool Lock() {
    const auto me = static_cast<uint32_t>(syscall(SYS_gettid));
    if (LoadRelaxed(&owner_) == me) return false;
    uint32_t seen = kFree;
    if (!__atomic_compare_exchange_n(&word_, &seen, kTaken, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED)) {
      // From here on, Unlock must wake a waiter.
      while (__atomic_exchange_n(&word_, kContended, __ATOMIC_ACQUIRE) != kFree) {
        FutexWaitNs(&word_, kContended, 0);
      }
    }
    StoreRelaxed(&owner_, me);
    return true;
  }
  void Unlock() {
    StoreRelaxed(&owner_, 0u);
    if (__atomic_exchange_n(&word_, kFree, __ATOMIC_RELEASE) == kContended) {
      FutexWake(&word_);
    }
  }

 private:
  static constexpr uint32_t kFree = 0, kTaken = 1, kContended = 2;
  uint32_t word_ = kFree;
  uint32_t owner_ = 0;  // tid
};

class SleepingLockHolder {
 public:
  explicit SleepingLockHolder(SleepingLock& lock) : lock_(lock), ours_(lock.Lock()) {}
  ~SleepingLockHolder() {
    if (ours_) lock_.Unlock();
  }
  SleepingLockHolder(const SleepingLockHolder&) = delete;
  SleepingLockHolder& operator=(const SleepingLockHolder&) = delete;

  // True if the thread already holds the lock further up the stack.
  bool nested() const { return !ours_; }

 private:
  SleepingLock& lock_;
  const bool ours_;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COMMON_SLEEPING_LOCK_H_
