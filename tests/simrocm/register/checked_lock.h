// A lock that fails if its holder takes it again, instead of waiting forever.
#ifndef ROCATTACH_TESTS_SIMROCM_REGISTER_CHECKED_LOCK_H_
#define ROCATTACH_TESTS_SIMROCM_REGISTER_CHECKED_LOCK_H_

#include <atomic>
#include <mutex>
#include <thread>

namespace simrocm {

class CheckedMutex {
 public:
  // False, without any change, if this thread holds it already. Other threads wait.
  bool Lock() {
    if (owner_.load() == std::this_thread::get_id()) return false;
    mutex_.lock();
    owner_.store(std::this_thread::get_id());
    return true;
  }
  void Unlock() {
    owner_.store(std::thread::id());
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_{std::thread::id()};
};

class CheckedLock {
 public:
  explicit CheckedLock(CheckedMutex& mutex) : mutex_(mutex), held_(mutex.Lock()) {}
  ~CheckedLock() {
    if (held_) mutex_.Unlock();
  }
  CheckedLock(const CheckedLock&) = delete;
  CheckedLock& operator=(const CheckedLock&) = delete;
  bool held() const { return held_; }

 private:
  CheckedMutex& mutex_;
  const bool held_;
};

}  // namespace simrocm

#endif  // ROCATTACH_TESTS_SIMROCM_REGISTER_CHECKED_LOCK_H_
