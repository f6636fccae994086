#include "userspace/watch/windows/serving_threads.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "userspace/base/clock.h"
#include "userspace/base/errno_status.h"

namespace rocattach {
namespace {

// A window is served in a fraction of a millisecond. A leader that takes longer is
// waiting for something; the events behind its own can wait this long without harm.
constexpr uint64_t kLeadPatienceNs = 4'000'000;
// With this many times the threads of the options, no further ones are started to
// replace blocked ones: that many blocking users at a time are no accident.
constexpr size_t kMostThreadsFactor = 8;

// Held threads wait for these threads, so they must not queue behind batch work. Each
// sleeps most of the time and works for some 100 us per window. The watchdog precedes
// the threads that it watches.
constexpr int kServingPriority = 1, kWatchdogPriority = 2;

}  // namespace

ServingThreads::ServingThreads(Options options)
    : options_(std::move(options)), turns_(std::max(options_.threads / 2, 1)) {}

ServingThreads::~ServingThreads() {
  (void)Stop(absl::Hours(1));
}

absl::Status ServingThreads::Start() {
  stop_fd_.reset(eventfd(0, EFD_CLOEXEC));
  if (!stop_fd_.valid()) return ErrnoStatus(errno, "eventfd() failed");
  watchdog_timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  if (!watchdog_timer_.valid()) return ErrnoStatus(errno, "timerfd_create() failed");
  for (int i = 0; i < options_.threads; ++i) StartThread();
  watchdog_ = std::thread([this] { Watch(); });
  return absl::OkStatus();
}

void ServingThreads::StartThread(std::optional<rocattach_event> first) {
  std::list<Thread> ended;
  {
    absl::MutexLock lock(&mutex_);
    ended.swap(ended_threads_);
    if (!stopping_) {
      const auto self = threads_.emplace(threads_.end());
      self->handle = TaskThread(kServingPriority, "rwa-window",
                                [this, self, first] { Run(self, first); });
      // Fails at a limit on threads or memory.
      if (!self->handle.joinable()) threads_.erase(self);
    }
  }
  Join(&ended);
}

// Threads that Stop() has left behind cannot be joined.
void ServingThreads::Join(std::list<Thread>* ended) {
  for (Thread& thread : *ended) {
    if (thread.handle.joinable()) thread.handle.join();
  }
}

bool ServingThreads::Stop(absl::Duration patience) {
  {
    absl::MutexLock lock(&mutex_);
    if (!stop_fd_.valid()) return true;
    stopping_ = true;
  }
  uint64_t one = 1;
  (void)!write(stop_fd_.get(), &one, sizeof(one));
  std::list<Thread> ended;
  bool all_ended = false;
  {
    absl::MutexLock lock(&mutex_);
    all_ended = ended_.WaitFor(
        &mutex_, patience,
        [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return threads_.empty(); });
    ended.swap(ended_threads_);
    for (Thread& thread : threads_) {
      if (thread.handle.joinable()) thread.handle.detach();
    }
  }
  Join(&ended);
  watchdog_ends_ = true;
  WakeWatchdog();
  if (watchdog_.joinable()) watchdog_.join();
  return all_ended;
}

void ServingThreads::Run(std::list<Thread>::iterator self,
                         std::optional<rocattach_event> first) {
  if (BecomeRealtime(kServingPriority, "rwa-window")) realtime_ = true;
  if (options_.begin != nullptr && !first.has_value()) options_.begin();
  const bool is_replaced = ServeEvents(&*self, &first);
  leadership_.HandOver(&self->member);
  // The end of this thread releases a tracee that cannot be detached; another thread
  // takes its place.
  if (is_replaced) StartThread(first);
  absl::MutexLock lock(&mutex_);
  ended_threads_.splice(ended_threads_.end(), threads_, self);
  ended_.SignalAll();
}

bool ServingThreads::ServeEvents(Thread* self, std::optional<rocattach_event>* next) {
  Leadership::Member* member = &self->member;
  for (;;) {
    if (next->has_value()) {
      if (!ServeInTurn(self, next)) return true;
      continue;
    }
    if (!member->leads()) leadership_.Acquire(member);
    rocattach_event event;
    if (!options_.wait_for_event(&event, stop_fd_.get())) return false;
    const uint64_t now_ns = BootNs();
    self->serving_ns = now_ns;
    leadership_.BeginWork(*member, now_ns);
    WakeWatchdog();
    if (event.type != ROCATTACH_EVENT_WINDOW && event.type != ROCATTACH_EVENT_READY) {
      (void)Serve(event, self);
    } else if (turns_.BeginTurn(event)) {
      *next = event;
      if (!ServeInTurn(self, next)) return true;
    }
    self->serving_ns = 0;
    leadership_.EndWork(*member);
  }
}

bool ServingThreads::ServeInTurn(Thread* self, std::optional<rocattach_event>* next) {
  while (next->has_value()) {
    const rocattach_event event = **next;
    const bool go_on = Serve(event, self);
    *next = turns_.Pass(event);
    if (!go_on) return false;
    // Events of other users may have waited longer than this user's.
    if (next->has_value()) leadership_.HandOver(&self->member);
    self->serving_ns = next->has_value() ? BootNs() : 0;
  }
  return true;
}

// The leader sets the timer when it begins to serve an event, and does not stop it: so
// it costs at most one system call in kLeadPatienceNs, and nothing while there is
// nothing to do.
void ServingThreads::WakeWatchdog() {
  if (watchdog_is_due_.load(std::memory_order_relaxed)) return;
  if (watchdog_is_due_.exchange(true)) return;
  itimerspec due = {};
  due.it_value.tv_nsec = kLeadPatienceNs;
  (void)timerfd_settime(watchdog_timer_.get(), 0, &due, nullptr);
}

void ServingThreads::Watch() {
  (void)BecomeRealtime(kWatchdogPriority, "rwa-watchdog");
  while (!watchdog_ends_) {
    uint64_t expired = 0;
    if (read(watchdog_timer_.get(), &expired, sizeof(expired)) < 0) continue;
    // First, so that a leader that begins from here on sets the timer again.
    watchdog_is_due_ = false;
    if (Relieve()) WakeWatchdog();
  }
}

bool ServingThreads::Relieve() {
  const uint64_t now_ns = BootNs();
  if (leadership_.Relieve(now_ns - kLeadPatienceNs)) {
    bool has_room = false;
    {
      absl::MutexLock lock(&mutex_);
      has_room =
          threads_.size() < kMostThreadsFactor * static_cast<size_t>(options_.threads);
    }
    if (has_room) StartThread();
  }
  const uint64_t hold_ns = uint64_t{options_.hold_timeout_msec} * 1'000'000;
  for (const rocattach_event& event : turns_.TakeOlderWindows(now_ns - hold_ns)) {
    options_.expire(event);
  }
  return turns_.HasWaiting() || leadership_.UnattendedSince() != 0;
}

absl::Duration ServingThreads::UnattendedFor() const {
  const uint64_t since_ns = leadership_.UnattendedSince();
  if (since_ns == 0) return absl::ZeroDuration();
  return absl::Nanoseconds(ElapsedNs(since_ns, BootNs()));
}

size_t ServingThreads::Kept(absl::Duration than) const {
  const uint64_t now_ns = BootNs();
  absl::MutexLock lock(&mutex_);
  return static_cast<size_t>(
      std::count_if(threads_.begin(), threads_.end(), [&](const Thread& thread) {
        const uint64_t since_ns = thread.serving_ns;
        return since_ns != 0 && absl::Nanoseconds(ElapsedNs(since_ns, now_ns)) > than;
      }));
}

}  // namespace rocattach
