// Threads for short tasks, which can run ahead of all ordinary threads.
#ifndef ROCATTACH_USERSPACE_BASE_TASK_THREAD_H_
#define ROCATTACH_USERSPACE_BASE_TASK_THREAD_H_

#include <pthread.h>

#include <cstddef>
#include <functional>

namespace rocattach {

// Gives the calling thread this real-time priority (SCHED_FIFO) and this name, of at
// most 15 bytes. Threads and processes that it starts are ordinary ones again. False if
// that is not permitted (CAP_SYS_NICE): the thread goes on as an ordinary one.
bool BecomeRealtime(int priority, const char* name);

// A thread for a task that a running or stopped program may depend on.
// - It has its real-time priority from its first instruction on. One that begins as an
//   ordinary thread and asks for the priority itself first waits for its turn behind
//   everything that runs, on a crowded machine for tens of milliseconds.
// - Its stack is small, so the C library keeps it for the next thread (it keeps 40 MB in
//   all). Mapping and unmapping stacks takes the lock of this process's mappings; if an
//   ordinary thread loses its processor meanwhile, no other one can start.
class TaskThread {
 public:
  // Enough for a task, with a margin: sanitizers take three times as much.
  static constexpr size_t kStackBytes = 512 << 10;

  TaskThread() = default;
  // `priority` 0: an ordinary thread, as where another one is not permitted. If no
  // thread can be started, joinable() is false, and `run` is dropped. `name` is a
  // literal, as above.
  TaskThread(int priority, const char* name, std::function<void()> run);
  TaskThread(TaskThread&& other) noexcept;
  TaskThread& operator=(TaskThread&& other) noexcept;
  // It must have been joined or detached, as with std::thread.
  ~TaskThread();

  bool joinable() const { return joinable_; }
  void join();
  void detach();

 private:
  pthread_t thread_ = {};
  bool joinable_ = false;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_TASK_THREAD_H_
