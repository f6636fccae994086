// A thread that its owner can leave behind.
#ifndef ROCATTACH_USERSPACE_BASE_DETACHABLE_THREAD_H_
#define ROCATTACH_USERSPACE_BASE_DETACHABLE_THREAD_H_

#include <functional>
#include <memory>
#include <thread>

#include "absl/time/time.h"

namespace rocattach {

// For work that may never return, such as a read of sysfs while the driver hangs: a
// stop joins the thread if it ends in time, and otherwise detaches it. Not thread-safe,
// except RequestStop().
class DetachableThread {
 public:
  // The thread's connection to its owner. Valid as long as the thread runs.
  class StopToken {
   public:
    virtual bool stop_requested() const = 0;
    // Waits for `timeout`, which is finite, or until a stop is requested. Returns true
    // if one has been requested.
    virtual bool WaitFor(absl::Duration timeout) const = 0;

   protected:
    ~StopToken() = default;
  };
  // Runs on the thread. It may outlive the owner, so it owns all that it uses.
  using Function = std::function<void(const StopToken& stop)>;

  // Starts the thread. `name`, of at most 15 bytes, is a literal; a stop waits for
  // `join_timeout`.
  DetachableThread(const char* name, absl::Duration join_timeout, Function function);
  // Calls Stop().
  ~DetachableThread();
  DetachableThread(const DetachableThread&) = delete;
  DetachableThread& operator=(const DetachableThread&) = delete;

  // May be called on any thread; does not wait.
  void RequestStop();
  // Requests a stop, and waits for it. False if the thread has been detached: it may
  // still be running.
  bool Stop();

 private:
  class Shared;

  const std::shared_ptr<Shared> shared_;
  const absl::Duration join_timeout_;
  bool detached_ = false;
  std::thread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_DETACHABLE_THREAD_H_
