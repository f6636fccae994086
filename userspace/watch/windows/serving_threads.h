// The threads that take the kernel's events and serve them.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_SERVING_THREADS_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_SERVING_THREADS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bpf/watch_events.h"
#include "userspace/base/steady_cond_var.h"
#include "userspace/base/task_thread.h"
#include "userspace/base/unique_fd.h"
#include "userspace/watch/windows/leadership.h"
#include "userspace/watch/windows/user_turns.h"

namespace rocattach {

// The lead of the thread that serves an event, which that thread can pass on.
class Lead {
 public:
  Lead(Leadership* leadership, Leadership::Member* member)
      : leadership_(leadership), member_(member) {}
  // Also false when it has been taken away.
  bool held() const { return member_->leads(); }
  // Lets another thread take the next event.
  void HandOver() const { leadership_->HandOver(member_); }

 private:
  Leadership* leadership_;
  Leadership::Member* member_;
};

// Leader and followers: one thread, the leader, waits for the kernel's events and
// serves small ones at once. When it has to wait for a held thread, or when other
// events are pending, it passes the lead on. So an event stays on one thread (ptrace
// belongs to a thread, and switching costs a wake-up), and as many windows are served
// at once as there are threads.
//
// A process can block the thread that reads it for as long as its user likes, and some
// of these waits cannot be ended. That must not cost other users a window:
// 1. A watchdog takes the lead from a thread that has been serving one event for
//    kLeadPatience, and starts another thread if none is idle.
// 2. Each user has half of the threads at most. Events beyond that wait, and are missed
//    when their hold is over.
// 3. Stop() leaves threads behind that do not end.
class ServingThreads {
 public:
  struct Options {
    int threads = 64;
    uint32_t hold_timeout_msec = 250;
    // Called at the beginning of each thread, except those that replace a thread that
    // has to end. May be null.
    std::function<void()> begin;
    // Waits for the next event; false when `stop_fd` is readable and none is pending.
    std::function<bool(rocattach_event*, int stop_fd)> wait_for_event;
    // False if the calling thread must end at once: another one takes its place.
    std::function<bool(const rocattach_event&, const Lead&)> serve;
    // Called for a WINDOW that has waited for a turn of its user until its hold was
    // over. On the watchdog's thread, which must not wait.
    std::function<void(const rocattach_event&)> expire;
  };

  explicit ServingThreads(Options options);
  ~ServingThreads();

  absl::Status Start() ABSL_LOCKS_EXCLUDED(mutex_);
  // Serves pending events, then ends the threads. Returns false if a process blocks one
  // of them for longer than `patience`: then this object, and what it uses, must not be
  // destroyed.
  bool Stop(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_);
  // Time for which no thread has been there to take the kernel's next event.
  absl::Duration UnattendedFor() const;
  // Number of threads that have been serving one event for longer than this.
  size_t Kept(absl::Duration than) const ABSL_LOCKS_EXCLUDED(mutex_);
  // True if the threads run with real-time priority.
  bool realtime() const { return realtime_; }

 private:
  struct Thread {
    TaskThread handle;
    Leadership::Member member;
    std::atomic<uint64_t> serving_ns = 0;  // when its event began to be served; 0: none
  };

  // Starts a thread that serves `first` before it takes events from the kernel.
  void StartThread(std::optional<rocattach_event> first = std::nullopt)
      ABSL_LOCKS_EXCLUDED(mutex_);
  static void Join(std::list<Thread>* ended);
  // Runs until the end of the thread.
  void Run(std::list<Thread>::iterator self, std::optional<rocattach_event> first)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes events and serves them, after `*next`, which already has its turn. Returns
  // false when stopping, or true when this thread must end at once: then `*next` is to
  // be served by another one.
  bool ServeEvents(Thread* self, std::optional<rocattach_event>* next);
  // Serves an event of a user's processes in the user's turn, and then those that wait
  // for that turn. False if this thread must end at once; `*next` as above.
  bool ServeInTurn(Thread* self, std::optional<rocattach_event>* next);
  bool Serve(const rocattach_event& event, Thread* self) {
    return options_.serve(event, Lead(&leadership_, &self->member));
  }
  // Runs on the watchdog's thread.
  void Watch() ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes the watchdog check the leader, after kLeadPatience at the latest.
  void WakeWatchdog();
  // Replaces a leader that is blocked; true if the watchdog is to check again.
  bool Relieve() ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  Leadership leadership_;
  UserTurns turns_;
  mutable absl::Mutex mutex_;
  SteadyCondVar ended_;
  std::list<Thread> threads_ ABSL_GUARDED_BY(mutex_);
  std::list<Thread> ended_threads_ ABSL_GUARDED_BY(mutex_);  // to be joined
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  UniqueFd stop_fd_;  // readable from Stop() on, for all threads
  UniqueFd watchdog_timer_;
  std::atomic<bool> watchdog_is_due_ = false;  // the timer is set
  std::atomic<bool> watchdog_ends_ = false;
  std::thread watchdog_;
  std::atomic<bool> realtime_ = false;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_SERVING_THREADS_H_
