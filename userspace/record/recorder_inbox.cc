#include "userspace/record/recorder_inbox.h"

#include <utility>

namespace rocattach {

void RecorderInbox::Push(RecorderMessage message) {
  messages_.push_back(std::move(message));
  if (messages_.size() >= kCrowdedMessages) crowded_ = true;
}

void RecorderInbox::Post(RecorderMessage message) {
  {
    absl::MutexLock lock(&mutex_);
    Push(std::move(message));
  }
  wake_.Signal();
}

void RecorderInbox::PostIfRoom(RecorderMessage message) {
  {
    absl::MutexLock lock(&mutex_);
    if (messages_.size() >= kMostMessages) {
      ++dropped_;
      return;
    }
    Push(std::move(message));
  }
  wake_.Signal();
}

bool RecorderInbox::PostTask(std::function<void()> task) {
  {
    absl::MutexLock lock(&mutex_);
    if (closed_) return false;
    Push(RecorderTask{std::move(task)});
  }
  wake_.Signal();
  return true;
}

void RecorderInbox::Close() {
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }
  wake_.Signal();
}

std::deque<RecorderMessage> RecorderInbox::TakeAll() {
  absl::MutexLock lock(&mutex_);
  crowded_ = false;
  return std::exchange(messages_, {});
}

bool RecorderInbox::Wait(int timeout_msec) {
  {
    absl::MutexLock lock(&mutex_);
    if (!messages_.empty()) return true;
    if (closed_) return false;
  }
  if (timeout_msec == 0) return true;
  (void)wake_.WaitFor(timeout_msec < 0 ? WakeEvent::kForever
                                       : uint64_t(timeout_msec) * 1'000'000);
  return true;
}

}  // namespace rocattach
