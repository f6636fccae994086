// State that belongs to one thread, for the compiler's thread-safety analysis.
#ifndef ROCATTACH_USERSPACE_BASE_THREAD_CHECKER_H_
#define ROCATTACH_USERSPACE_BASE_THREAD_CHECKER_H_

#include <atomic>
#include <cassert>
#include <thread>

#include "absl/base/thread_annotations.h"

namespace rocattach {

// Represents "this runs on the owner's thread" as a mutex represents "this is locked":
// members that only one thread uses are ABSL_GUARDED_BY a checker, functions on that
// thread are ABSL_EXCLUSIVE_LOCKS_REQUIRED of it. The thread begins with Adopt();
// functions that the analysis cannot follow (callbacks, virtual functions) begin with
// AssertOwned(), which is checked in builds with assertions.
class ABSL_LOCKABLE ThreadChecker {
 public:
  ThreadChecker() = default;
  ThreadChecker(const ThreadChecker&) = delete;
  ThreadChecker& operator=(const ThreadChecker&) = delete;

  // The calling thread owns the state from here on. The previous owner has ended, or
  // has not started.
  void Adopt() ABSL_ASSERT_EXCLUSIVE_LOCK() {
    owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }
  bool IsOwner() const {
    return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  void AssertOwned() const ABSL_ASSERT_EXCLUSIVE_LOCK() { assert(IsOwner()); }

 private:
  std::atomic<std::thread::id> owner_ = std::thread::id();
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_THREAD_CHECKER_H_
