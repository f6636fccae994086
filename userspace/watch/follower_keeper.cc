#include "userspace/watch/follower_keeper.h"

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <utility>

#include "userspace/base/clock.h"

namespace rocattach {
namespace {

constexpr auto kPollPeriod = std::chrono::microseconds(100);
constexpr auto kIdleLife = std::chrono::seconds(5);
// A thread that was asked to stop sits in the probe's loop and sees it within
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
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) return;
  added_.push_back(event);
  if (running_) {
    wake_.notify_one();
    return;
  }
  // The thread lives only where programs do this: few do.
  if (thread_.joinable()) thread_.join();
  running_ = true;
  thread_ = std::thread([this] { Run(); });
}

void FollowerKeeper::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

bool FollowerKeeper::LetGo(Follower* follower) {
  // Only a stopped thread can be detached.
  (void)follower->tracee->WaitForStop(BootNs() + kStopPatienceNs);
  follower->tracee->Release();
  return !follower->tracee->tracer_must_exit();
}

void FollowerKeeper::Run() {
  sched_param param = {};
  param.sched_priority = 1;
  (void)pthread_setschedparam(pthread_self(), SCHED_FIFO | SCHED_RESET_ON_FORK, &param);
  (void)pthread_setname_np(pthread_self(), "rwa-followers");
  std::vector<Follower> kept;
  bool must_exit = false;
  std::unique_lock<std::mutex> lock(mutex_);
  while (!must_exit) {
    if (added_.empty() && !stopping_) {
      if (!kept.empty()) {
        wake_.wait_for(lock, kPollPeriod);
      } else if (wake_.wait_for(lock, kIdleLife) == std::cv_status::timeout &&
                 added_.empty()) {
        break;
      }
    }
    std::vector<rocattach_event> added = std::exchange(added_, {});
    const bool stopping = stopping_;
    lock.unlock();
    const bool let_go = stopping || Tracee::MustLetGo();
    for (const rocattach_event& event : added) {
      // Settled meanwhile: the thread has left the probe or is about to.
      if (!is_open_(event)) continue;
      Follower follower;
      follower.event = event;
      follower.tracee = std::make_unique<Tracee>();
      follower.deadline_ns = event.time_ns + uint64_t{limit_msec_} * 1'000'000;
      if (!follower.tracee
               ->Seize(static_cast<pid_t>(event.pid), static_cast<pid_t>(event.tid))
               .ok()) {
        continue;  // gone, or somebody else's
      }
      if (follower.tracee->Interrupt().ok()) kept.push_back(std::move(follower));
    }
    for (size_t i = 0; i < kept.size();) {
      if (!let_go && is_open_(kept[i].event) && BootNs() < kept[i].deadline_ns) {
        ++i;
        continue;
      }
      must_exit |= !LetGo(&kept[i]);
      kept.erase(kept.begin() + static_cast<ptrdiff_t>(i));
    }
    lock.lock();
    if (stopping && kept.empty()) break;
  }
  running_ = false;
}

}  // namespace rocattach
