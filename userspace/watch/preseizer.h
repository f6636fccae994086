// Hold mode "signal", for kernels without sleepable uprobes: processes are seized when
// they map the HSA runtime, so that the probe can stop the thread that enters hsa_init
// with a signal that only the tracer sees.
#ifndef ROCATTACH_USERSPACE_WATCH_PRESEIZER_H_
#define ROCATTACH_USERSPACE_WATCH_PRESEIZER_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "bpf/watch_events.h"
#include "injector/attach.h"
#include "injector/library_facts.h"
#include "injector/tracee.h"
#include "userspace/base/thread_checker.h"
#include "userspace/base/wake_event.h"
#include "userspace/watch/budget.h"
#include "userspace/watch/mmap_events.h"
#include "userspace/watch/window.h"

namespace rocattach {

// Owns the thread that traces. A seized process cannot be debugged, and its signals
// pass through this thread: a process that has not opened its window after
// `patience_msec` is released. Windows have budgets, but here a process costs something
// before it has a window: mapping any file named like the runtime is enough. So each
// user but root has a limit of its own; beyond it, processes are not seized, and their
// windows are missed.
class Preseizer {
 public:
  static constexpr int kMostPerUser = 64;
  static constexpr uint32_t kPerUserAndSecond = 100;

  // Receives a window with the outcome of its attach.
  using Done = std::function<void(Window)>;
  // `wanted` decides, on the preseizer's thread, whether a process is seized at all.
  // `is_open` returns whether the window of an event's process is still open.
  static absl::StatusOr<std::unique_ptr<Preseizer>> Start(
      std::function<bool(pid_t)> wanted,
      std::function<bool(const rocattach_event&)> is_open, LibraryCache* cache,
      uint32_t patience_msec);
  ~Preseizer();

  // Attaches to the thread of a SIGNALLED window, which is stopped or about to stop;
  // `done` is called on the preseizer's thread.
  void Serve(Window window, AttachRequest request, Done done);
  // The process no longer needs to be seized: its window was settled otherwise.
  void Forget(pid_t pid);
  void Stop();

 private:
  struct Task {
    Window window;
    AttachRequest request;
    Done done;
    uint64_t deadline_ns = 0;
  };
  struct Thread {
    std::unique_ptr<Tracee> tracee;
    uint64_t held_ns = 0;  // when its stop was seen
  };
  struct Process {
    std::map<pid_t, Thread> threads;
    uint64_t deadline_ns = 0;
    uid_t uid = 0;
    // The attach has been tried: followers wait until the collector reports.
    std::optional<rocattach_event> settling;
  };

  Preseizer(std::function<bool(pid_t)> wanted,
            std::function<bool(const rocattach_event&)> is_open, LibraryCache* cache,
            uint32_t patience_msec)
      : wanted_(std::move(wanted)),
        is_open_(std::move(is_open)),
        cache_(cache),
        patience_msec_(patience_msec) {}
  // False if asked to stop; true if this thread has to end and another has to take its
  // place.
  bool Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes over what others have added; true if the thread is to stop.
  bool TakeAdded(std::vector<pid_t>* forgotten) ABSL_LOCKS_EXCLUDED(mutex_)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(tracing_thread_);
  void OnMmap(const MmapEvent& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(tracing_thread_);
  // May one more process of this user be seized?
  bool WithinBudget(uid_t uid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(tracing_thread_);
  // Seizes the threads of a process that are not seized yet.
  static void SeizeThreads(pid_t pid, Process* process);
  void Release(pid_t pid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(tracing_thread_);
  void ReleaseAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(tracing_thread_);
  // Detaches released tracees that have stopped since.
  void ReleaseLate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(tracing_thread_);
  void KeepAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(tracing_thread_);
  static void KeepThreads(Process* process, bool has_window);
  static void Settle(Process* process);
  bool HasTask(pid_t pid) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(tracing_thread_);
  // Attaches if the thread is stopped; false if the task must wait.
  bool TryAttach(Task* task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(tracing_thread_);

  std::function<bool(pid_t)> wanted_;
  std::function<bool(const rocattach_event&)> is_open_;
  LibraryCache* cache_;
  uint32_t patience_msec_;
  std::unique_ptr<MmapEvents> events_;
  WakeEvent wake_;
  std::thread thread_;
  absl::Mutex mutex_;
  std::vector<Task> added_ ABSL_GUARDED_BY(mutex_);
  std::vector<pid_t> forgotten_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  ThreadChecker tracing_thread_;
  std::map<pid_t, Process> processes_ ABSL_GUARDED_BY(tracing_thread_);
  UserRate rate_ ABSL_GUARDED_BY(tracing_thread_){kPerUserAndSecond, kMostPerUser};
  // Released, but not yet in the stop that a detach needs: if forgotten, they would
  // stop and never continue.
  std::vector<std::unique_ptr<Tracee>> leaving_ ABSL_GUARDED_BY(tracing_thread_);
  std::vector<Task> tasks_ ABSL_GUARDED_BY(tracing_thread_);
  // A tracee could not be detached.
  bool must_exit_ ABSL_GUARDED_BY(tracing_thread_) = false;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_PRESEIZER_H_
