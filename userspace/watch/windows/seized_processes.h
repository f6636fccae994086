// Processes that are seized in advance, and the thread that traces them.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_SEIZED_PROCESSES_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_SEIZED_PROCESSES_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bpf/watch_events.h"
#include "injector/attach.h"
#include "injector/elf/library_facts.h"
#include "injector/tracing/tracee.h"
#include "userspace/base/process.h"
#include "userspace/base/task_thread.h"
#include "userspace/base/thread_checker.h"
#include "userspace/base/wake_event.h"
#include "userspace/watch/windows/window.h"

namespace rocattach {

// A seized process cannot be debugged, and its signals pass through this thread, so a
// process that has not opened its window after `patience_msec` is released.
//
// A process can block the thread: by its memory while it is attached to, and, while it
// is seized, by an exec of a file that its file system does not deliver. So Preseizer
// has one of these objects for each process. Thread-safe.
class SeizedProcesses {
 public:
  // Maximum number of each kind of requests that wait while the thread is blocked.
  static constexpr size_t kMostWaiting = 256;

  struct Options {
    // True if the window of an event's process is still open.
    std::function<bool(const rocattach_event&)> is_open;
    // Called when a process is not seized any more, or was not. On the tracing thread.
    std::function<void(const ProcessId&)> on_released;
    LibraryCache* cache = nullptr;
    uint32_t patience_msec = 0;
  };
  // Receives a window with the outcome of its attach.
  using Done = std::function<void(Window)>;

  // `options` must outlive it.
  explicit SeizedProcesses(const Options& options);
  ~SeizedProcesses();

  // OK, or why there is no descriptor to wake it.
  absl::Status status() const { return wake_.status(); }
  // False if too many are waiting already.
  bool Seize(const ProcessId& process) ABSL_LOCKS_EXCLUDED(mutex_);
  // See Preseizer::Serve(). If too many are waiting already, the window is returned
  // with that outcome, and `done` is not called.
  std::optional<Window> Serve(Window window, AttachRequest request, Done done)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // See Preseizer::Forget().
  void Forget(const ProcessId& process) ABSL_LOCKS_EXCLUDED(mutex_);
  // True if it does nothing, and traces nothing.
  bool idle() const ABSL_LOCKS_EXCLUDED(mutex_);
  // True if a process has blocked the thread for longer than this.
  bool IsKept(absl::Duration than) const;
  // Does not wait.
  void RequestStop() ABSL_LOCKS_EXCLUDED(mutex_);
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

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
    // Set once the attach has been tried: followers wait until the collector reports.
    std::optional<rocattach_event> settling;
  };
  // Requests that other threads have added.
  struct Added {
    std::vector<ProcessId> to_seize;
    std::vector<Task> tasks;
    std::vector<ProcessId> forgotten;
    bool empty() const {
      return to_seize.empty() && tasks.empty() && forgotten.empty();
    }
  };

  // False if asked to stop; true if this thread has to end and another has to take its
  // place.
  bool Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // True if the thread is to stop. `idle`: it has nothing to do but what was added.
  bool Wait(bool idle, Added* added) ABSL_LOCKS_EXCLUDED(mutex_);
  void SeizeNew(const ProcessId& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(tracing_thread_);
  // Seizes the threads of a process that are not seized yet.
  static void SeizeThreads(pid_t pid, Process* process);
  void Release(ProcessId process) ABSL_EXCLUSIVE_LOCKS_REQUIRED(tracing_thread_);
  void ReleaseAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(tracing_thread_);
  // Detaches released tracees that have stopped since.
  void ReleaseLate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(tracing_thread_);
  void KeepAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(tracing_thread_);
  static void KeepThreads(Process* process, bool has_window);
  static void Settle(Process* process);
  bool HasTask(const ProcessId& process) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(tracing_thread_);
  // Attaches if the thread is stopped; false if the task must wait.
  bool TryAttach(Task* task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(tracing_thread_);

  const Options& options_;
  WakeEvent wake_;
  TaskThread thread_;
  std::atomic<uint64_t> busy_ns_ = 0;  // since when it works; 0: it waits
  mutable absl::Mutex mutex_;
  Added added_ ABSL_GUARDED_BY(mutex_);
  bool idle_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  ThreadChecker tracing_thread_;
  std::map<ProcessId, Process> processes_ ABSL_GUARDED_BY(tracing_thread_);
  // Tracees that are released, but not yet in the stop that a detach needs: if
  // forgotten, they would stop and never continue.
  std::vector<std::unique_ptr<Tracee>> leaving_ ABSL_GUARDED_BY(tracing_thread_);
  std::vector<Task> tasks_ ABSL_GUARDED_BY(tracing_thread_);
  // True if a tracee could not be detached.
  bool must_exit_ ABSL_GUARDED_BY(tracing_thread_) = false;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_SEIZED_PROCESSES_H_
