// Threads that enter hsa_init while another thread of their process is in its window
// are stopped until the window is settled. If one of them overtook the other thread,
// the runtime would be loaded without the collector.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_FOLLOWER_KEEPER_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_FOLLOWER_KEEPER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "bpf/watch_events.h"
#include "injector/tracing/tracee.h"
#include "userspace/base/task_thread.h"
#include "userspace/base/wake_event.h"
#include "userspace/watch/windows/per_process.h"

namespace rocattach {

// Keeps the followers of one process at a time, because a process that executes a file
// which its file system does not deliver blocks the thread that seizes it.
class FollowerKeeper {
 public:
  // Followers that wait while the keeper is blocked; any more run on, without a stop.
  static constexpr size_t kMostWaiting = 256;

  // `is_open` returns whether the window of an event's process is still open; no thread
  // is kept longer than `limit_msec`.
  FollowerKeeper(std::function<bool(const rocattach_event&)> is_open,
                 uint32_t limit_msec);
  ~FollowerKeeper();

  // Takes charge of the thread of a FOLLOW event. Any thread may call this.
  void Add(const rocattach_event& event) ABSL_LOCKS_EXCLUDED(mutex_);
  // True if it keeps no follower, and has no thread of its own.
  bool idle() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Does not wait.
  void RequestStop() ABSL_LOCKS_EXCLUDED(mutex_);
  // Releases all threads and ends the keeper's thread.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Follower {
    rocattach_event event;
    std::unique_ptr<Tracee> tracee;
    uint64_t deadline_ns = 0;
  };
  // The loop of the tracing thread, since a tracer is a thread. It ends when idle for a
  // while, or when only its end can release a tracee.
  void Run(WakeEvent* wake) ABSL_LOCKS_EXCLUDED(mutex_);
  // Seizes and stops the thread of a FOLLOW event, unless its window is settled.
  void Keep(const rocattach_event& event, std::vector<Follower>* kept) const;
  // Releases a follower. False if only the end of the tracing thread can do that.
  static bool LetGo(Follower* follower);
  // Called when the tracing thread is about to end.
  void OnThreadEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the events that were added, and whether to stop. Waits if there is nothing
  // to do; sets `finished` if the thread has been idle long enough to end.
  std::vector<rocattach_event> NextAdded(WakeEvent* wake, bool keeping, bool* stopping,
                                         bool* finished) ABSL_LOCKS_EXCLUDED(mutex_);

  std::function<bool(const rocattach_event&)> is_open_;
  uint32_t limit_msec_;
  mutable absl::Mutex mutex_;
  // Exists as long as the thread runs: an idle keeper needs no descriptor.
  std::unique_ptr<WakeEvent> wake_ ABSL_GUARDED_BY(mutex_);
  std::vector<rocattach_event> added_ ABSL_GUARDED_BY(mutex_);
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  TaskThread thread_;  // started in Add(), under the lock; Stop() comes last
};

// The followers of all processes. Thread-safe.
class FollowerKeepers {
 public:
  // The arguments are those of FollowerKeeper.
  FollowerKeepers(std::function<bool(const rocattach_event&)> is_open,
                  uint32_t limit_msec);
  void Add(const rocattach_event& event) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for keepers whose thread is blocked; nothing may be added any more.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  PerProcess<FollowerKeeper> keepers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_FOLLOWER_KEEPER_H_
