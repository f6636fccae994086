#include "userspace/watch/windows/follower_keeper.h"

#include <pthread.h>

#include <utility>

#include "userspace/base/clock.h"
#include "userspace/watch/windows/window.h"

namespace rocattach {
namespace {

constexpr uint64_t kPollPeriodNs = 100'000;
constexpr uint64_t kIdleLifeNs = 5'000'000'000;
// A thread that was asked to stop is in the probe's loop and notices within
// microseconds of getting a CPU.
constexpr uint64_t kStopPatienceNs = 500'000'000;

}  // namespace

FollowerKeeper::FollowerKeeper(std::function<bool(const rocattach_event&)> is_open,
                               uint32_t limit_msec)
    : is_open_(std::move(is_open)), limit_msec_(limit_msec) {}

FollowerKeeper::~FollowerKeeper() {
  Stop();
}

void FollowerKeeper::Add(const rocattach_event& event) {
  absl::MutexLock lock(&mutex_);
  if (stopping_ || added_.size() >= kMostWaiting) return;
  added_.push_back(event);
  if (running_) {
    wake_->Signal();
    return;
  }
  // The thread exists only while it is needed: few programs have followers.
  if (thread_.joinable()) thread_.join();
  wake_ = std::make_unique<WakeEvent>();
  thread_ = TaskThread(1, "rwa-followers", [this, wake = wake_.get()] { Run(wake); });
  // If no thread could be created, the next call tries again.
  running_ = thread_.joinable();
  if (!running_) wake_ = nullptr;
}

bool FollowerKeeper::idle() const {
  absl::MutexLock lock(&mutex_);
  return !running_;
}

void FollowerKeeper::RequestStop() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  if (running_) wake_->Signal();
}

void FollowerKeeper::Stop() {
  RequestStop();
  if (thread_.joinable()) thread_.join();
}

bool FollowerKeeper::LetGo(Follower* follower) {
  // Only a stopped thread can be detached.
  (void)follower->tracee->WaitForStop(BootNs() + kStopPatienceNs);
  follower->tracee->Release();
  return !follower->tracee->tracer_must_exit();
}

void FollowerKeeper::Keep(const rocattach_event& event,
                          std::vector<Follower>* kept) const {
  // Already settled: the thread has left the probe or is about to.
  if (!is_open_(event)) return;
  Follower follower;
  follower.event = event;
  follower.tracee = std::make_unique<Tracee>();
  follower.deadline_ns = event.time_ns + uint64_t{limit_msec_} * 1'000'000;
  if (!follower.tracee
           ->Seize(static_cast<pid_t>(event.pid), static_cast<pid_t>(event.tid))
           .ok()) {
    return;  // gone, or another debugger's
  }
  if (follower.tracee->Interrupt().ok()) kept->push_back(std::move(follower));
}

std::vector<rocattach_event> FollowerKeeper::NextAdded(WakeEvent* wake, bool keeping,
                                                       bool* stopping, bool* finished) {
  {
    absl::MutexLock lock(&mutex_);
    *stopping = stopping_;
    if (!added_.empty() || stopping_) return std::exchange(added_, {});
  }
  // A change of the wall clock could extend a timeout based on it, and with it the stop
  // of the kept threads.
  const bool woken = wake->WaitFor(keeping ? kPollPeriodNs : kIdleLifeNs);
  absl::MutexLock lock(&mutex_);
  *stopping = stopping_;
  *finished = !keeping && !woken && !stopping_ && added_.empty();
  if (*finished) OnThreadEnd();
  return std::exchange(added_, {});
}

void FollowerKeeper::OnThreadEnd() {
  running_ = false;
  wake_ = nullptr;
}

void FollowerKeeper::Run(WakeEvent* wake) {
  std::vector<Follower> kept;
  for (bool must_exit = false; !must_exit;) {
    bool stopping = false, finished = false;
    const auto added = NextAdded(wake, !kept.empty(), &stopping, &finished);
    if (finished) return;
    const bool let_go = stopping || Tracee::MustLetGo();
    for (const rocattach_event& event : added) Keep(event, &kept);
    std::erase_if(kept, [&](Follower& follower) {
      if (!let_go && !follower.tracee->HasEnded() && is_open_(follower.event) &&
          BootNs() < follower.deadline_ns) {
        return false;
      }
      must_exit |= !LetGo(&follower);
      return true;
    });
    if (stopping) break;
  }
  absl::MutexLock lock(&mutex_);
  OnThreadEnd();
}

FollowerKeepers::FollowerKeepers(std::function<bool(const rocattach_event&)> is_open,
                                 uint32_t limit_msec)
    : keepers_([is_open = std::move(is_open), limit_msec] {
        return std::make_unique<FollowerKeeper>(is_open, limit_msec);
      }) {}

void FollowerKeepers::Add(const rocattach_event& event) {
  absl::MutexLock lock(&mutex_);
  keepers_.Of(ProcessIdOf(event)).Add(event);
}

// No keeper waits for another one's end before it releases its own threads.
void FollowerKeepers::Stop() {
  std::vector<FollowerKeeper*> keepers;
  {
    absl::MutexLock lock(&mutex_);
    keepers_.ForEach([&keepers](FollowerKeeper& keeper) {
      keeper.RequestStop();
      keepers.push_back(&keeper);
    });
  }
  for (FollowerKeeper* keeper : keepers) keeper->Stop();
}

}  // namespace rocattach
