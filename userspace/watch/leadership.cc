#include "userspace/watch/leadership.h"

#include <utility>

namespace rocattach {

void Leadership::Acquire(Member* member) {
  member->leads_ = true;
  {
    absl::MutexLock lock(&mutex_);
    if (!std::exchange(has_leader_, true)) return;
    idle_.push_back(member);
  }
  member->called_.acquire();
}

void Leadership::HandOver(Member* member) {
  if (!std::exchange(member->leads_, false)) return;
  Member* next = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    if (idle_.empty()) {
      has_leader_ = false;
      return;
    }
    next = idle_.back();
    idle_.pop_back();
  }
  next->called_.release();
}

}  // namespace rocattach
