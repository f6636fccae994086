#include "userspace/watch/stub_remover.h"

#include <chrono>
#include <utility>

namespace rocattach {

StubRemover::StubRemover() : thread_([this] { Run(); }) {}

StubRemover::~StubRemover() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StubRemover::Remove(const StubLocation& location) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (location.address == 0 || jobs_.size() >= kMaxJobs) return;
    jobs_.push_back({location});
  }
  changed_.notify_all();
}

void StubRemover::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    if (jobs_.empty()) {
      changed_.wait(lock);
      continue;
    }
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    // The process is being attached to once more: its stub is in use, or will be.
    if (again_.contains(job.location.pid)) continue;
    removing_ = job.location.pid;
    lock.unlock();
    StepResult removed = RemoveStub(job.location);
    lock.lock();
    removing_ = 0;
    if (!removed.ok() && removed.failure().retryable && --job.tries_left > 0 &&
        jobs_.size() < kMaxJobs) {
      jobs_.push_back(std::move(job));
      changed_.wait_for(lock, std::chrono::milliseconds(kPauseMsec),
                        [this] { return stopping_; });
    }
  }
}

StubRemover::Again::Again(StubRemover* remover, pid_t pid)
    : remover_(remover), pid_(pid) {
  std::lock_guard<std::mutex> lock(remover_->mutex_);
  ok_ = remover_->removing_ != pid_;
  remover_->again_.insert(pid_);
}

StubRemover::Again::~Again() {
  std::lock_guard<std::mutex> lock(remover_->mutex_);
  remover_->again_.erase(remover_->again_.find(pid_));
}

}  // namespace rocattach
