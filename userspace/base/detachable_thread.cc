#include "userspace/base/detachable_thread.h"

#include <pthread.h>

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "userspace/base/steady_cond_var.h"

namespace rocattach {

// Also owned by the thread, which may be left behind.
class DetachableThread::Shared final : public DetachableThread::StopToken {
 public:
  bool stop_requested() const override {
    absl::MutexLock lock(&mutex_);
    return stop_;
  }
  bool WaitFor(absl::Duration timeout) const override {
    absl::MutexLock lock(&mutex_);
    return changed_.WaitFor(
        &mutex_, timeout,
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stop_; });
  }
  void RequestStop() {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  void SetEnded() {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    changed_.SignalAll();
  }
  // True if the function returns within `timeout`.
  bool WaitForEnd(absl::Duration timeout) const {
    absl::MutexLock lock(&mutex_);
    return changed_.WaitFor(
        &mutex_, timeout,
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_; });
  }

 private:
  mutable absl::Mutex mutex_;
  mutable SteadyCondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // the function has returned
};

DetachableThread::DetachableThread(const char* name, absl::Duration join_timeout,
                                   Function function)
    : shared_(std::make_shared<Shared>()),
      join_timeout_(join_timeout),
      thread_([name, shared = shared_, function = std::move(function)] {
        (void)pthread_setname_np(pthread_self(), name);
        function(*shared);
        shared->SetEnded();
      }) {}

DetachableThread::~DetachableThread() {
  Stop();
}

void DetachableThread::RequestStop() {
  shared_->RequestStop();
}

bool DetachableThread::Stop() {
  if (!thread_.joinable()) return !detached_;
  RequestStop();
  if (shared_->WaitForEnd(join_timeout_)) {
    thread_.join();
  } else {
    thread_.detach();
    detached_ = true;
  }
  return !detached_;
}

}  // namespace rocattach
