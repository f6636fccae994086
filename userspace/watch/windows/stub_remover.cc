#include "userspace/watch/windows/stub_remover.h"

#include <utility>

namespace rocattach {

StubRemover::StubRemover(Removal removal, absl::Duration pause)
    : removal_(std::move(removal)), pause_(pause), thread_([this] { Run(); }) {}

StubRemover::~StubRemover() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  thread_.join();
}

void StubRemover::Remove(const StubLocation& location) {
  {
    absl::MutexLock lock(&mutex_);
    if (location.address == 0 || jobs_.size() >= kMaxJobs) return;
    jobs_.push_back({location});
  }
  changed_.SignalAll();
}

void StubRemover::Run() {
  for (;;) {
    Job job;
    {
      absl::MutexLock lock(&mutex_);
      changed_.Wait(&mutex_, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !jobs_.empty();
      });
      if (stopping_) return;
      job = jobs_.front();
      jobs_.pop_front();
      // The process is being attached to again: its stub is in use, or will be.
      if (attaching_.contains(job.location.pid)) continue;
      removing_ = job.location.pid;
    }
    const StepResult removed = removal_(job.location);
    absl::MutexLock lock(&mutex_);
    removing_ = 0;
    if (removed.ok() || !removed.failure().retryable || --job.tries_left <= 0 ||
        jobs_.size() >= kMaxJobs) {
      continue;
    }
    jobs_.push_back(job);
    changed_.WaitFor(&mutex_, pause_, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stopping_;
    });
  }
}

StubRemover::Reattach::Reattach(StubRemover* remover, pid_t pid)
    : remover_(remover), pid_(pid) {
  absl::MutexLock lock(&remover_->mutex_);
  ok_ = remover_->removing_ != pid_;
  remover_->attaching_.insert(pid_);
}

StubRemover::Reattach::~Reattach() {
  absl::MutexLock lock(&remover_->mutex_);
  remover_->attaching_.erase(remover_->attaching_.find(pid_));
}

}  // namespace rocattach
