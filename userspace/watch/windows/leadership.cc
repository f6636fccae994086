#include "userspace/watch/windows/leadership.h"

#include "userspace/base/clock.h"

namespace rocattach {

void Leadership::Acquire(Member* member) {
  {
    absl::MutexLock lock(&mutex_);
    if (leader_ == nullptr) {
      leader_ = member;
      member->leads_ = true;
      unattended_ns_ = 0;
      return;
    }
    idle_.push_back(member);
  }
  member->called_.acquire();
}

Leadership::Member* Leadership::PassOn() {
  leader_->leads_ = false;
  leader_ = nullptr;
  if (idle_.empty()) {
    if (unattended_ns_ == 0) unattended_ns_ = BootNs();
    return nullptr;
  }
  leader_ = idle_.back();
  idle_.pop_back();
  leader_->leads_ = true;
  unattended_ns_ = 0;
  return leader_;
}

void Leadership::HandOver(Member* member) {
  if (!member->leads()) return;
  Member* next = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    if (leader_ == member) next = PassOn();
  }
  if (next != nullptr) next->called_.release();
}

void Leadership::BeginWork(const Member& member, uint64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  if (leader_ == &member) unattended_ns_ = now_ns;
}

void Leadership::EndWork(const Member& member) {
  absl::MutexLock lock(&mutex_);
  if (leader_ == &member) unattended_ns_ = 0;
}

uint64_t Leadership::UnattendedSince() const {
  absl::MutexLock lock(&mutex_);
  return unattended_ns_;
}

bool Leadership::Relieve(uint64_t before_ns) {
  Member* next = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    if (unattended_ns_ == 0 || unattended_ns_ > before_ns) return false;
    if (leader_ == nullptr) return true;
    next = PassOn();
  }
  if (next == nullptr) return true;
  next->called_.release();
  return false;
}

}  // namespace rocattach
