// The collector's one thread.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COMMON_WORKER_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COMMON_WORKER_H_

#include <stdint.h>

#include "userspace/abi/atomics.h"

namespace rocattach::collector {

// Starts the thread, puts it to sleep and wakes it. Init() determines what it does.
class Worker {
 public:
  // The thread calls `run` once. It sleeps on `command`, a field of the control block.
  void Init(void (*run)(), uint32_t* command) {
    run_ = run;
    command_ = command;
  }

  // Starts the thread, with all signals blocked. 0 or an errno value.
  int Start();

  // For hooks, after an operation was put in flight: wakes the thread from a long
  // sleep.
  void Nudge() {
    if (Unlikely(LoadRelaxed(&asleep_) != 0)) Wake();
  }
  void Wake();

  // For the thread itself: sleeps while the command is `seen`, for at most
  // `timeout_ns`; 0: no limit. The next operation put in flight ends a long sleep; if
  // it just misses the flag, the delay is one period.
  void Sleep(uint32_t seen, uint64_t timeout_ns, bool long_sleep);

  bool running() const { return LoadAcquire(&running_) != 0; }

 private:
  static void* Main(void* self);

  void (*run_)() = nullptr;
  uint32_t* command_ = nullptr;
  uint32_t running_ = 0;
  uint32_t asleep_ = 0;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COMMON_WORKER_H_
