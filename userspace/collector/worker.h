// The collector's one thread.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_WORKER_H_
#define ROCATTACH_USERSPACE_COLLECTOR_WORKER_H_

#include <stdint.h>

#include "userspace/abi/atomics.h"
#include "userspace/collector/common/ring.h"

namespace rocattach::collector {

struct Collector;

// Publishes what finishes while nobody rings, retries doorbells that wait, keeps the
// totals fresh, and puts the environment back if the runtime never calls. It sleeps on
// the control block's `command`, without a timeout while there is nothing to do.
class Worker {
 public:
  // Starts the thread, with all signals blocked. 0 or an errno value.
  int Start(Collector* collector);

  // For hooks, after something was put in flight: wakes the thread from a long sleep.
  void Nudge() {
    if (Unlikely(LoadRelaxed(&asleep_) != 0)) Wake();
  }
  void Wake();

  bool running() const { return LoadAcquire(&running_) != 0; }
  void Forget() { running_ = 0; }

 private:
  static void* Main(void* self);
  void Run();
  // One round over all queues; true if anything is in flight or waits.
  bool Tick(RingHandle* ring);
  bool TickQueue(struct Queue* q, RingHandle* ring, bool recording);
  void WatchService(bool recording);

  Collector* collector_ = nullptr;
  uint32_t running_ = 0;
  uint32_t asleep_ = 0;
  uint64_t dropped_ = 0;     // as of the last look
  uint64_t full_since_ = 0;  // when drops began without the service draining
  uint32_t stopped_command_ = 0;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_WORKER_H_
